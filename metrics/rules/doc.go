// Package rules holds the tests of everything that is written about the metrics elsewhere: docs/grafana.json, docs/alerts.yml,
// and the table of names in metrics/README.md. It is a separate module, so that other modules do not depend on the parser of
// Prometheus.
package rules
