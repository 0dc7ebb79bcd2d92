//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package watch

import "os"

func (s *screen) suspensions() <-chan os.Signal { return nil }
func (s *screen) suspend()                      {}

// eachKey can't do that here.
func eachKey(*os.File) (back func()) { return nil }
