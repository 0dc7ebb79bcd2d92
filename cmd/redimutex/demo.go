package main

func demoCommand(args []string, t terminal) int { return exitFailure }
