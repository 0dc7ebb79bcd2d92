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

// A Completer is a flag.Value that knows what it can be.
type Completer interface {
	// Complete returns the values that begin as start does.
	Complete(start string) []string
}

// Switch is a flag that is there or not.
func Switch(p *bool) flag.Value { return (*switchValue)(p) }

type switchValue bool

func (s *switchValue) String() string   { return "" }
func (s *switchValue) IsBoolFlag() bool { return true }
func (s *switchValue) Set(text string) error {
	b, err := strconv.ParseBool(text)
	if err != nil {
		return errors.New("write true or false, or nothing")
	}
	*s = switchValue(b)
	return nil
}

// Text is a flag that is any text.
func Text(p *string) flag.Value { return (*textValue)(p) }

type textValue string

func (s *textValue) String() string        { return "" }
func (s *textValue) Set(text string) error { *s = textValue(text); return nil }

// Choice is a flag that is one of some words.
func Choice(p *string, words ...string) flag.Value { return &choice{p, words} }

type choice struct {
	p     *string
	words []string
}

func (c *choice) String() string { return "" }
func (c *choice) Set(text string) error {
	if !slices.Contains(c.words, text) {
		return errors.New("write " + Or(c.words))
	}
	*c.p = text
	return nil
}

func (c *choice) Complete(start string) (fit []string) {
	for _, w := range c.words {
		if strings.HasPrefix(w, start) {
			fit = append(fit, w)
		}
	}
	return fit
}

// Or lists words: a, b or c.
func Or(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// List is a flag that is a list of some words, with commas.
func List(p *map[string]bool, words ...string) flag.Value { return &list{p, words} }

type list struct {
	p     *map[string]bool
	words []string
}

func (l *list) String() string { return "" }
func (l *list) Set(text string) error {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		if !slices.Contains(l.words, word) {
			return errors.New("there is no " + strconv.Quote(word) + "; these are known: " + strings.Join(l.words, ", "))
		}
		if *l.p == nil {
			*l.p = make(map[string]bool)
		}
		(*l.p)[word] = true
	}
	return nil
}

func (l *list) Complete(start string) (fit []string) {
	before := start[:strings.LastIndex(start, ",")+1]
	for _, w := range l.words {
		if strings.HasPrefix(before+w, start) && !slices.Contains(strings.Split(before, ","), w) {
			fit = append(fit, before+w)
		}
	}
	return fit
}

// Number is a flag that is a number. what says what kind of number it is.
func Number(p *int, least, most int, what string) flag.Value { return &number{p, least, most, what} }

type number struct {
	p           *int
	least, most int
	what        string
}

func (n *number) String() string { return "" }
func (n *number) Set(text string) error {
	i, err := strconv.Atoi(text)
	if err != nil || i < n.least || i > n.most {
		return errors.New("write " + n.what)
	}
	*n.p = i
	return nil
}

// MaxTime is the longest time that a flag may be.
const MaxTime = 366 * 24 * time.Hour

// Time is a flag that is a time, as a Go duration or as a number of seconds.
func Time(p *time.Duration) flag.Value { return (*seconds)(p) }

type seconds time.Duration

func (s *seconds) String() string { return "" }

var (
	errTime   = errors.New("write seconds, such as 5 or 0.5, or a time with its unit, such as 500ms or 1m30s")
	errLong   = errors.New("the longest time is a year, which is 8784h")
	errBefore = errors.New("it can't be negative")
)

// manyUnits is what a time looks like.
var manyUnits = regexp.MustCompile(`^([0-9]+\.?[0-9]*(h|m|s|ms|us|µs|ns))+$`)

func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		n, err := strconv.ParseFloat(text, 64)
		switch {
		case math.IsNaN(n), err != nil && !math.IsInf(n, 0):
			if manyUnits.MatchString(text) {
				return errLong // too long even for ParseDuration
			}
			return errTime
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
		return errBefore
	case d > MaxTime:
		return errLong
	}
	*s = seconds(d)
	return nil
}
