// Command hand is a worker process of the benchmark. It runs the version of the library that it was built with.
package main

import "github.com/redimutex/redimutex/bench/internal/work"

func main() { work.Main() }
