package goredis

import "reflect"

// hooked reports whether hooks were added to a client. go-redis does not tell, so it looks into the client, at what
// AddHook appends to. If that is not where v9.23.0 has it, the answer is no.
func hooked(client any) bool {
	mixin := field(reflect.ValueOf(client), "hooksMixin")
	state := field(mixin, "state") // *atomic.Pointer[hooksState]
	if state.Kind() != reflect.Pointer || state.IsNil() {
		return false
	}
	load := reflect.NewAt(state.Type().Elem(), state.UnsafePointer()).MethodByName("Load")
	if !load.IsValid() || load.Type().NumIn() != 0 || load.Type().NumOut() != 1 {
		return false
	}
	hooks := field(load.Call(nil)[0], "slice")
	return hooks.Kind() == reflect.Slice && hooks.Len() > 0
}

// field returns a field of what v is or points to, or the zero Value.
func field(v reflect.Value, name string) reflect.Value {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v.FieldByName(name)
}
