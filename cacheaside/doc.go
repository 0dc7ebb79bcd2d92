// Package cacheaside reads hot keys through a cache. A value that has just expired is loaded once, and not by every
// caller that wants it at that moment.
//
//	cache := cacheaside.New(client, cacheaside.NewRedisStore(pool, 10*time.Second)) // one for the program
//	user, err := cacheaside.Fetch(ctx, cache, "user:42", func(ctx context.Context) (User, error) {
//		return queryUser(ctx, 42)
//	})
//
// [Fetch] looks in the cache. If the value is not there, one caller among all processes gets the lock, looks again, loads the
// value, puts it into the cache and releases the lock. The others look again every 100 ms, take the value as soon as it is
// there, and give up after a number of tries. In each process one goroutine per key does this for all waiting callers.
//
// # What it guarantees
//
// While a holder's lease is valid, no other caller loads the key. A loader's result is in the cache before the lock is
// released, so the process that gets the lock next finds it there. If a loader fails, only its own caller gets the error; the
// next caller tries with its own loader.
//
// It spares the database; it does not keep the cache right. A value can be as old as the cache allows. A value that is changed
// while it is loaded is cached as it was before. So delete the key after the change, and choose a TTL that you can live with.
//
// # When the lock is lost
//
// The ctx of the loader ends when the lease does, with a cause that matches [redimutex.ErrLost]. What a loader
// returns after that is not cached, because another process may have cached something newer by then. Its caller gets
// an error that matches ErrLost, and can safely call Fetch again.
//
// Two gaps stay, in which an old value replaces a newer one, or comes back after its key was deleted. It then stays for
// one TTL of the cache.
//
//   - A process may be paused for longer than the lease between its look at the lease and its write to the cache. In
//     this case a loader may also run twice at the same time, and that has to do no harm.
//   - A write to the cache may be late. If the cache server or the network hangs, Fetch stops waiting for the write,
//     logs that, and returns the value. The server may still carry out the write afterwards.
package cacheaside
