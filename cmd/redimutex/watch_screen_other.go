//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package main

import "os"

// terminalSize does not know it here.
func terminalSize(*os.File) (width, height int) { return 0, 0 }

func (s *screen) suspensions() <-chan os.Signal { return nil }
func (s *screen) suspend()                      {}
