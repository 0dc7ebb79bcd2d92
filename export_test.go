package redimutex

import (
	"reflect"
	"sync"
)

// Keys returns for how many keys the Client remembers something.
func (c *Client) Keys() int {
	engine := reflect.ValueOf(c.engine).Elem()
	mu := (*sync.Mutex)(engine.FieldByName("mu").Addr().UnsafePointer())
	mu.Lock()
	defer mu.Unlock()
	return engine.FieldByName("keys").Len()
}
