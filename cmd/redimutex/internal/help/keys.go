package help

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/inspect"
	"github.com/redimutex/redimutex/cmd/redimutex/internal/servers"
	"github.com/redimutex/redimutex/internal/server"
)

const (
	keysPatience = 500 * time.Millisecond // as long as a user who has pressed TAB may have to wait
	keysMost     = 200                    // more can't be surveyed in a shell
)

// lockKeys returns the locks whose key begins so. It says nothing if that can't be found out, and
// offers what it has found when time is over: a server may have millions of keys, or not answer.
func lockKeys(given servers.URLs, start string) []string {
	nodes, err := servers.Find(given, keysPatience)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), keysPatience)
	defer cancel()
	found := make(chan string)
	var searchers sync.WaitGroup
	for _, n := range nodes {
		searchers.Go(func() {
			search := inspect.Find(server.New(n.Pool), literal(start)+"*", false)
			for !search.Done && ctx.Err() == nil {
				some, err := search.Next(ctx, keysPatience)
				if err != nil {
					return
				}
				for _, k := range some {
					select {
					case found <- k:
					case <-ctx.Done():
						return
					}
				}
			}
		})
	}
	go func() { searchers.Wait(); cancel() }()
	keys := make(map[string]bool)
	for len(keys) < keysMost {
		select {
		case k := <-found:
			keys[k] = true
			continue
		case <-ctx.Done():
		}
		break
	}
	return slices.Sorted(maps.Keys(keys))
}

// literal is a pattern of SCAN that fits the text itself.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
