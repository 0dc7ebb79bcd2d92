package redimutex

import (
	"reflect"
	"sync"
)

// Keys returns the number of keys about which the Client remembers something.
func (c *Client) Keys() int {
	engine := reflect.ValueOf(c.engine).Elem()
	mu := (*sync.Mutex)(engine.FieldByName("mu").Addr().UnsafePointer())
	mu.Lock()
	defer mu.Unlock()
	return engine.FieldByName("keys").Len()
}
