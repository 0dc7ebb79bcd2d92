package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

const breakHelp = `Usage: redimutex break [FLAGS] KEY

Breaks the lock KEY: shows who holds it, asks, and deletes it, but only if it
is still held by the one that was shown. Who waits first in its queue gets it.

  -redis URL  The server; repeat it for Redlock: then the lock is deleted on
              all of them. -redis @FILE reads the URLs from a file. Default:
              $REDIMUTEX_URL (several with commas or spaces, or @FILE), else
              $REDIS_URL, else redis://127.0.0.1:6379
  -yes        Do not ask. Needed where stdin is not a terminal.
  -json       One JSON object: key, result (broken, free, changed, declined or
              unknown), before and after, as redimutex show -json has them
              (after is null if nothing was tried), and servers, a list with
              address, result and error of each.

BEFORE YOU BREAK IT
  A crashed holder's lock ends by itself: look at its TTL, which rises again
  when a living holder renews it. A short TTL that rises is a holder at work.

WHAT THE HOLDER WILL SEE
  Breaking stops nobody. A holder that renews its lease is told that it is lost,
  deleted or taken, at its next renewal, within a third of its TTL; redimutex
  run ends its command then. A holder that does not renew finds out when it
  unlocks. Until then its code may be running, beside that of the next holder.
  What keeps its late writes out is a resource that checks fences, and nothing
  else. Those who took the lock by another library may never be told.

  With several servers, what only a minority of them has is deleted as well: it
  is held by nobody, and keeps others from getting a majority.

EXAMPLES
  redimutex break nightly-backup
  In a script:
    redimutex break -yes -json nightly-backup | jq -r .result

EXIT STATUS
  0   broken
  1   nothing was broken: it was free, changed hands meanwhile, or you said no
  2   wrong usage, or nobody to ask and no -yes
  69  too few servers can be reached, or they refuse; stderr says why
`

const exitNotBroken = 1

func breakCommand(args []string, t terminal) int {
	var given urls
	var yes, asJSON bool
	fs := newFlags("break")
	fs.Var(&given, "redis", "")
	fs.BoolVar(&yes, "yes", false, "")
	fs.BoolVar(&asJSON, "json", false, "")
	words, err := parse(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		io.WriteString(t.out, breakHelp) //nolint:errcheck // nowhere to say so
		return exitOK
	}
	var key string
	if err == nil {
		key, err = oneKey(words)
	}
	if err == nil && !yes && !canAnswer(t.in) {
		err = errors.New("stdin is not a terminal, so there is nobody to ask; -yes breaks the lock without asking")
	}
	var nodes servers
	if err == nil {
		nodes, err = findServers(given)
	}
	if err != nil {
		return usageError(t, "break", err)
	}
	defer nodes.close()

	before, err := look(nodes, key)
	if err != nil {
		fmt.Fprintf(t.err, "redimutex: can't look at %q: %s\n", key, printable(nodes.explain(err)))
		return exitUnavailable
	}
	b := &breach{Key: key, Before: before, Servers: []brokenServer{}, nodes: nodes}
	talk := t.out // to people; what a script reads is alone on stdout
	if asJSON {
		talk = t.err
	}
	if !asJSON || !yes {
		before.print(talk)
	}
	switch {
	case before.Agree == 0:
		b.Result = wasFree
	case !yes && !b.confirm(t):
		b.Result = wasDeclined
	default:
		b.carryOut()
	}
	if asJSON {
		printJSON(t.out, b)
	} else {
		b.tell(t.out)
	}
	return b.status(t.err)
}

// canAnswer reports whether somebody sits at the file. The null device looks like a terminal, too.
func canAnswer(in *os.File) bool {
	info, err := in.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// confirm asks whether the lock that was shown is to be broken.
func (b *breach) confirm(t terminal) bool {
	who := "Its holder is not stopped by it, and may still be working."
	if !b.Before.Held {
		who = "It may be that somebody is taking the lock just now."
	}
	fmt.Fprintf(t.err, "%s\nBreak it? [y/N] ", who)
	answer, err := bufio.NewReader(t.in).ReadString('\n')
	if err != nil {
		fmt.Fprintln(t.err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	}
	return false
}
