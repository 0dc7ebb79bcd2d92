package main

func showCommand(args []string, t terminal) int { return exitFailure }
