package punctual

import (
	"context"
	"reflect"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Pool reports whether nothing that p does outlasts the ctx given to its GetContext, nor do operations of its
// connections outlast theirs: it dials by the DialContext of a Dialer, and tests what it hands out by the TestIdle
// of one, or not at all.
//
// It looks at the functions themselves. A function that calls ours in turn may do anything else as well, so it
// does not count.
func Pool(p *redis.Pool) bool {
	return known && p != nil && p.TestOnBorrow == nil &&
		code(p.DialContext) == dialCode &&
		(p.TestOnBorrowContext == nil || code(p.TestOnBorrowContext) == testCode)
}

// A method value is a pointer to a function that the compiler makes for the method, and there is one for all
// receivers, however and wherever the value is made.
var (
	dialCode = code((*Dialer)(nil).DialContext)
	testCode = code(func() func(context.Context, redis.Conn, time.Time) error { return (*Dialer)(nil).TestIdle }())
)

// code returns where the instructions of a function are: 0 for nil.
func code(f any) uintptr { return reflect.ValueOf(f).Pointer() }
