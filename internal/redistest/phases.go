package redistest

import (
	"regexp"
	"strings"
)

// Phases tells whom readers and writers of one key have overtaken, by the order in which the server has executed it. Each
// process has one goroutine of each side at most.
type Phases struct{ Readers, Writers Waits }

// Waits are those of one side. In each, a reader may see one writer begin. A writer may see one phase of readers before
// the next writer, in which no process has two turns.
type Waits struct {
	N      int // how many there were
	Passed int // in which more than that has happened
	Most   int // how many writers a reader has seen, and how many turns of a process a writer
}

func (w *Waits) end(seen int) {
	w.N++
	if seen > 1 {
		w.Passed++
	}
	w.Most = max(w.Most, seen)
}

// A writerWait is that of one writer.
type writerWait struct {
	turns map[string]int // of each process as a reader since a writer began
	most  int
}

var (
	phaseShow   = regexp.MustCompile(`lua\] "ZADD" "redimutex:(waiting|entitled|writers):\{[^"]*\}" "\d+" "(.+)"$`)
	phaseHide   = regexp.MustCompile(`lua\] "ZREM" "redimutex:(entitled|writers):\{[^"]*\}" "(.+)"$`)
	phaseReader = regexp.MustCompile(`lua\] "ZADD" "redimutex:readers:\{[^"]*\}" "\d+" "(.+)"$`)
	phaseWriter = regexp.MustCompile(`lua\] "SET" "[^"]*" "[^*"]+" "PX"`)
)

// ReadPhases reads the Lines of a Monitor that has heard of one key.
func ReadPhases(lines []string) (p Phases) {
	readers := make(map[string]int) // marks of those that wait, and how many writers have begun
	writers := make(map[string]*writerWait)
	tokens := make(map[string]bool) // of readers that have entered
	gone := ""                      // the last reader's mark that went in this script: of one that enters, if one does
	for _, line := range lines {
		if !strings.Contains(line, " lua] ") { // the next script
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
				if gone == "" { // it enters together with another
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
