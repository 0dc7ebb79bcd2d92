package redistest

import (
	"regexp"
	"strings"
)

// Phases says by whom waiting readers and writers of one key were overtaken, in the order in which the server executed
// everything. Each process must have at most one goroutine of each side.
type Phases struct{ Readers, Writers Waits }

// Waits describes the waits of one side. While a reader waits, at most one writer may begin. A writer may see one phase of
// readers before the next writer, and no process has two turns in a phase.
type Waits struct {
	N      int // how many waits there were
	Passed int // how many in which more than that has happened
	Most   int // the most writers that a reader saw begin, or turns of one process that a writer saw
}

func (w *Waits) end(seen int) {
	w.N++
	if seen > 1 {
		w.Passed++
	}
	w.Most = max(w.Most, seen)
}

// A writerWait is the wait of one writer.
type writerWait struct {
	turns map[string]int // by process: its turns as a reader since the last writer began
	most  int
}

var (
	phaseShow   = regexp.MustCompile(`lua\] "ZADD" "redimutex:(waiting|entitled|writers):\{[^"]*\}" "\d+" "(.+)"$`)
	phaseHide   = regexp.MustCompile(`lua\] "ZREM" "redimutex:(entitled|writers):\{[^"]*\}" "(.+)"$`)
	phaseReader = regexp.MustCompile(`lua\] "ZADD" "redimutex:readers:\{[^"]*\}" "\d+" "(.+)"$`)
	phaseWriter = regexp.MustCompile(`lua\] "SET" "[^"]*" "[^*"]+" "PX"`)
)

// ReadPhases reads the Lines of a Monitor that has seen only one key.
func ReadPhases(lines []string) (p Phases) {
	readers := make(map[string]int) // marks of waiting readers, and how many writers have begun since
	writers := make(map[string]*writerWait)
	tokens := make(map[string]bool) // of readers that have entered
	gone := ""                      // the mark that this script removed last: of the reader that enters, if one does
	for _, line := range lines {
		if !strings.Contains(line, " lua] ") { // a new script begins
			gone = ""
		}
		switch show, hide := phaseShow.FindStringSubmatch(line), phaseHide.FindStringSubmatch(line); {
		case show != nil && show[1] == "writers":
			if writers[show[2]] == nil {
				writers[show[2]] = &writerWait{turns: make(map[string]int)}
			}
		case show != nil:
			if _, known := readers[show[2]]; !known {
				readers[show[2]] = 0
			}
		case hide != nil && hide[1] == "writers":
			if w := writers[hide[2]]; w != nil {
				p.Writers.end(w.most)
				delete(writers, hide[2])
			}
		case hide != nil:
			if seen, waits := readers[hide[2]]; waits {
				p.Readers.end(seen)
				delete(readers, hide[2])
			}
			gone = hide[2]
		case phaseWriter.MatchString(line):
			for mark := range readers {
				readers[mark]++
			}
			for _, w := range writers {
				clear(w.turns)
			}
		default:
			if token := phaseReader.FindStringSubmatch(line); token != nil && !tokens[token[1]] {
				tokens[token[1]] = true
				if gone == "" { // it enters together with another reader
					continue
				}
				for _, w := range writers {
					w.turns[gone]++
					w.most = max(w.most, w.turns[gone])
				}
				gone = ""
			}
		}
	}
	return p
}
