// Package rules holds the tests of what is written about the metrics elsewhere: docs/grafana.json,
// docs/alerts.yml, and the table of names in metrics/README.md. It is a module of its own, so that the
// parser of Prometheus is no dependency of other modules.
package rules
