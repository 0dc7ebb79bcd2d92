package main

import (
	"testing"

	"github.com/redimutex/redimutex/cmd/redimutex/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, commands) }
