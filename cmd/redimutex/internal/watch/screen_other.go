//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package watch

import "os"

func (s *screen) suspensions() <-chan os.Signal { return nil }
func (s *screen) suspend()                      {}
