//go:build !linux

package clitest

func become() {}
