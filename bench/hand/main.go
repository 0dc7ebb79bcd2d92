// Command hand is a worker process of the benchmark, with whichever version of the library it was built with.
package main

import "github.com/redimutex/redimutex/bench/internal/work"

func main() { work.Main() }
