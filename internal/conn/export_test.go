package conn

// WithoutKnowing runs f as with a version of redigo that netConn can't look into.
func WithoutKnowing(f func()) {
	defer func(before bool) { known = before }(known)
	known = false
	f()
}
