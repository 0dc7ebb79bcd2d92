package conn

// WithoutKnowing has f run as with a redigo that netConn can't look into.
func WithoutKnowing(f func()) {
	defer func(before bool) { known = before }(known)
	known = false
	f()
}
