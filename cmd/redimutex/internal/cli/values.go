package cli

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Value is what a flag sets.
type Value struct {
	Set      func(text string) error
	Complete func(start string) []string // the values that begin with start; nil: they are unknown
}

// Switch returns a flag that is either present or not.
func Switch(p *bool) Value {
	return Value{Set: func(text string) (err error) {
		if *p, err = strconv.ParseBool(text); err != nil {
			return errors.New("write true or false, or nothing")
		}
		return nil
	}}
}

var errEmpty = errors.New("it is empty; leave the flag out for its default")

// Text returns a flag that takes any text but the empty one: a shell variable that was never set is empty.
func Text(p *string) Value {
	return Value{Set: func(text string) error {
		if text == "" {
			return errEmpty
		}
		*p = text
		return nil
	}}
}

// Choice returns a flag that takes one of some words.
func Choice(p *string, words ...string) Value {
	set := func(text string) error {
		if !slices.Contains(words, text) {
			last := len(words) - 1
			return errors.New("write " + strings.Join(words[:last], ", ") + " or " + words[last])
		}
		*p = text
		return nil
	}
	return Value{set, func(start string) []string { return beginning(start, words) }}
}

// beginning returns the words that begin with start.
func beginning(start string, words []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, start) })
}

// List returns a flag that takes a list of some words, separated by commas.
func List(p *map[string]bool, words ...string) Value {
	set := func(text string) error {
		list := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
		if len(list) == 0 {
			return errEmpty
		}
		for _, word := range list {
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
	return Value{set, func(start string) (fit []string) {
		before := start[:strings.LastIndex(start, ",")+1]
		for _, w := range beginning(start[len(before):], words) {
			if !slices.Contains(strings.Split(before, ","), w) {
				fit = append(fit, before+w)
			}
		}
		return fit
	}}
}

// Number returns a flag that takes a number. what says what kind of number it is.
func Number(p *int, least, most int, what string) Value {
	return Value{Set: func(text string) error {
		i, err := strconv.Atoi(text)
		if err != nil || i < least || i > most {
			return errors.New("write " + what)
		}
		*p = i
		return nil
	}}
}

// maxTime is the longest time that a flag accepts.
const maxTime = 366 * 24 * time.Hour

// Time returns a flag that takes a time, as a Go duration or as a number of seconds.
func Time(p *time.Duration) Value {
	return Value{Set: func(text string) (err error) {
		*p, err = parseTime(text)
		return err
	}}
}

var (
	errTime   = errors.New("write seconds, such as 5 or 0.5, or a time with its unit, such as 500ms or 1m30s")
	errLong   = errors.New("the longest time is a year, which is 8784h")
	errBefore = errors.New("it can't be negative")
)

// manyUnits matches the form of a time.
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
		case n < 0:
			return 0, errBefore
		case n > maxTime.Seconds():
			return 0, errLong
		}
		d = time.Duration(n * float64(time.Second))
	}
	switch {
	case d < 0:
		return 0, errBefore
	case d > maxTime:
		return 0, errLong
	}
	return d, nil
}
