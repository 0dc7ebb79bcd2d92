package main

func versionCommand(args []string, t terminal) int { return exitFailure }
