package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/redimutex/redimutex/bench/internal/figures"
)

// spread shows a median, and the least and the most of the rounds if they look different.
func spread(s figures.Summary) string {
	switch s.Rounds {
	case 0:
		return "–"
	case 1:
		return number(s.Median)
	}
	median, least, most := number(s.Median), number(s.Least), number(s.Most)
	if median == least && median == most {
		return median
	}
	return fmt.Sprintf("%s (%s–%s)", median, least, most)
}

// number shows about three digits, or all digits of a whole number.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case a >= 100 || v == math.Trunc(v):
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// thousands puts a comma between every three digits.
func thousands(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// layOut makes a Markdown table that is easy to read on a terminal, too.
func layOut(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for n, row := range rows {
		for i, cell := range row {
			fmt.Fprintf(&text, "| %s%s ", cell, strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		text.WriteString("|\n")
		if n == 0 {
			for _, w := range widths {
				text.WriteString("|" + strings.Repeat("-", w+2))
			}
			text.WriteString("|\n")
		}
	}
	return text.String()
}
