// Package cacheaside reads hot keys through a cache, so that a value that has just expired is loaded
// once, and not by everybody who wants it at that moment.
//
//	cache := cacheaside.New(client, cacheaside.NewRedisStore(pool, 10*time.Second)) // one for the program
//	user, err := cacheaside.Fetch(ctx, cache, "user:42", func(ctx context.Context) (User, error) {
//		return queryUser(ctx, 42)
//	})
//
// [Fetch] looks in the cache. If the value is not there, one caller among all processes gets the lock,
// looks again, loads the value, puts it into the cache and gives the lock back. The others look again
// every 100 ms, take the value as soon as it is there, and give up after a number of tries. In one
// process one goroutine for each key does so on behalf of all that wait for it.
//
// # What it guarantees
//
// While a holder's lease is valid, no other caller loads the key. A loader's result is in the cache before
// the lock is given back, so the process that gets the lock next finds it there. A loader that fails fails its
// own caller, and the next one tries with its own.
//
// It is a way to spare the database, not to keep the cache right. A value can be as old as the cache
// lets it become, and a value that was changed while it was being loaded is cached as it was before:
// delete the key after the change, and choose a TTL that you can live with.
//
// # When the lock is lost
//
// The ctx that the loader gets ends when the lease does, with an error that matches
// [redimutex.ErrLost] as its cause. What a loader returns after that is not cached, because another may
// have cached something newer by then, and its caller gets an error that matches ErrLost. Calling
// Fetch again is safe. One gap stays: a process that is paused for longer than the lease between
// the look at the lease and the write to the cache writes an old value over a newer one. It stays for
// one TTL of the cache. That a loader runs twice at the same time is possible in this case, and
// has to do no harm.
package cacheaside
