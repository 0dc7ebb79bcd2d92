package cli

import (
	"errors"
	"flag"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Completer is a flag.Value that may know what it can be.
type Completer interface {
	// Complete returns the values that begin as start does.
	Complete(start string) []string
}

// A value is a flag.Value, and a Completer.
type value struct {
	set      func(text string) error
	complete func(start string) []string // nil: what it can be is not known
	bare     bool                        // it may stand there without a text
}

func (v *value) String() string        { return "" }
func (v *value) Set(text string) error { return v.set(text) }
func (v *value) IsBoolFlag() bool      { return v.bare }

func (v *value) Complete(start string) []string {
	if v.complete == nil {
		return nil
	}
	return v.complete(start)
}

// Switch is a flag that is there or not.
func Switch(p *bool) flag.Value {
	return &value{bare: true, set: func(text string) error {
		b, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("write true or false, or nothing")
		}
		*p = b
		return nil
	}}
}

// Text is a flag that is any text.
func Text(p *string) flag.Value {
	return &value{set: func(text string) error { *p = text; return nil }}
}

// Choice is a flag that is one of some words.
func Choice(p *string, words ...string) flag.Value {
	set := func(text string) error {
		if !slices.Contains(words, text) {
			return errors.New("write " + Or(words))
		}
		*p = text
		return nil
	}
	return &value{set: set, complete: func(start string) (fit []string) {
		for _, w := range words {
			if strings.HasPrefix(w, start) {
				fit = append(fit, w)
			}
		}
		return fit
	}}
}

// Or lists words: a, b or c.
func Or(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// List is a flag that is a list of some words, with commas.
func List(p *map[string]bool, words ...string) flag.Value {
	set := func(text string) error {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
			if !slices.Contains(words, word) {
				return errors.New("there is no " + strconv.Quote(word) + "; these are known: " + strings.Join(words, ", "))
			}
			if *p == nil {
				*p = make(map[string]bool)
			}
			(*p)[word] = true
		}
		return nil
	}
	return &value{set: set, complete: func(start string) (fit []string) {
		before := start[:strings.LastIndex(start, ",")+1]
		for _, w := range words {
			if strings.HasPrefix(before+w, start) && !slices.Contains(strings.Split(before, ","), w) {
				fit = append(fit, before+w)
			}
		}
		return fit
	}}
}

// Number is a flag that is a number. what says what kind of number it is.
func Number(p *int, least, most int, what string) flag.Value {
	return &value{set: func(text string) error {
		i, err := strconv.Atoi(text)
		if err != nil || i < least || i > most {
			return errors.New("write " + what)
		}
		*p = i
		return nil
	}}
}

// MaxTime is the longest time that a flag may be.
const MaxTime = 366 * 24 * time.Hour

// Time is a flag that is a time, as a Go duration or as a number of seconds.
func Time(p *time.Duration) flag.Value {
	return &value{set: func(text string) (err error) {
		*p, err = parseTime(text)
		return err
	}}
}

var (
	errTime   = errors.New("write seconds, such as 5 or 0.5, or a time with its unit, such as 500ms or 1m30s")
	errLong   = errors.New("the longest time is a year, which is 8784h")
	errBefore = errors.New("it can't be negative")
)

// manyUnits is what a time looks like.
var manyUnits = regexp.MustCompile(`^([0-9]+\.?[0-9]*(h|m|s|ms|us|µs|ns))+$`)

func parseTime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		n, err := strconv.ParseFloat(text, 64)
		switch {
		case math.IsNaN(n), err != nil && !math.IsInf(n, 0):
			if manyUnits.MatchString(text) {
				return 0, errLong // too long even for ParseDuration
			}
			return 0, errTime
		case math.Abs(n) > MaxTime.Seconds():
			d = MaxTime + 1
		default:
			d = time.Duration(n * float64(time.Second))
		}
		if n < 0 {
			d = -1
		}
	}
	switch {
	case d < 0:
		return 0, errBefore
	case d > MaxTime:
		return 0, errLong
	}
	return d, nil
}
