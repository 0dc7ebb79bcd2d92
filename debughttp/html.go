package debughttp

import (
	"crypto/sha256"
	_ "embed" // the page and its parts
	"encoding/base64"
	"html/template"
	"time"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// policy allows the page its own script, style and icon, and requests to its own origin. Anything else, such as markup that a
// process writes into a key, is neither run nor loaded, even if this package forgot to escape it.
var policy = "default-src 'none'; script-src " + hash(pageJS) + "; style-src " + hash(pageCSS) + "; img-src data:; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

var document = template.Must(template.New("page").Funcs(template.FuncMap{
	"style":  func() template.CSS { return template.CSS(pageCSS) },
	"script": func() template.JS { return template.JS(pageJS) },
	"orders": func() []order { return orders },
	"brief":  func(ms int64) string { return brief(time.Duration(ms) * time.Millisecond) },
	"round":  func(ms int64) string { return round(time.Duration(ms) * time.Millisecond) },
	"clock":  func(t moment) string { return t.Format("15:04:05.000") },
	"stamp":  func(t moment) string { return t.Format("2006-01-02 15:04:05 MST") },
	"rfc":    func(t moment) string { return t.Format(time.RFC3339Nano) },
	"part":   func(whole int64, share float64) float64 { return float64(whole) * share },
	"urgent": func() float64 { return urgentBelow },
	"mean": func(sum float64, n int64) string {
		return brief(time.Duration(sum / float64(max(n, 1)) * float64(time.Millisecond)))
	},
	"none": func() *look { return &look{Held: []*lock{{}}, WaitedFor: []*lock{{}}, Events: []happening{{}}} },
}).Parse(pageHTML))
