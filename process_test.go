package redimutex_test

import "os"

const roleVariable = "REDIMUTEX_TEST_ROLE"

func work(role string) int { os.Stderr.WriteString(role); return 2 }
