package punctual

import (
	"net"
	"reflect"

	"github.com/gomodule/redigo/redis"
)

// known reports whether netConn can look into the connections of this redigo. With one that is made in another
// way, which the tests would tell, connections are as redigo makes them, and no pool is punctual.
var known = func() bool {
	ours, other := net.Pipe()
	defer ours.Close()
	defer other.Close()
	return netConn(redis.NewConn(ours, 0, 0)) == ours
}()

// netConn returns the network connection below one of redigo, or nil. redigo has options for how to dial the
// network, but shows neither the options, once they are given, nor what they have led to; and to set a function of
// our own among them would undo those of the user: timeout for connecting, keep-alive.
func netConn(c redis.Conn) net.Conn {
	v := reflect.Indirect(reflect.ValueOf(c))
	if v.Kind() != reflect.Struct {
		return nil
	}
	field := v.FieldByName("conn")
	if !field.IsValid() || !field.CanAddr() || field.Type() != reflect.TypeFor[net.Conn]() {
		return nil
	}
	return *(*net.Conn)(field.Addr().UnsafePointer())
}
