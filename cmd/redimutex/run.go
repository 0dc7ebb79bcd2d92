package main

func runCommand(args []string, t terminal) int { return exitFailure }
