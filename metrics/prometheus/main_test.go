package redimutexprom_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redimutex/redimutex"
	redimutexprom "github.com/redimutex/redimutex/metrics/prometheus"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // the tests lose leases on purpose, and the library logs that
	os.Exit(m.Run())
}

// collect registers a Collector of client, and closes it at the end of the test.
func collect(t testing.TB, r *prometheus.Registry, client *redimutex.Client, opts ...redimutexprom.Option) *redimutexprom.Collector {
	t.Helper()
	c := redimutexprom.New(client, opts...)
	t.Cleanup(c.Close)
	require.NoError(t, r.Register(c))
	return c
}

// A page is what a Prometheus server gets when it scrapes.
type page map[string]*dto.MetricFamily

// scrape asks for the metrics as a server does, over HTTP.
func scrape(t testing.TB, r *prometheus.Registry) page {
	t.Helper()
	site := httptest.NewServer(promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	defer site.Close()
	response, err := http.Get(site.URL)
	require.NoError(t, err)
	defer response.Body.Close()
	if !assert.Equal(t, http.StatusOK, response.StatusCode) {
		body, _ := io.ReadAll(response.Body)
		t.Fatalf("%s", body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	require.NoError(t, err)
	return families
}

// find returns the series of a metric with these labels, given as name and value in turn, or nil.
func (p page) find(name string, labels ...string) *dto.Metric {
	for _, m := range p[name].GetMetric() {
		has := make(map[string]string)
		for _, l := range m.GetLabel() {
			has[l.GetName()] = l.GetValue()
		}
		same := len(has) == len(labels)/2
		for i := 0; i < len(labels); i += 2 {
			same = same && has[labels[i]] == labels[i+1]
		}
		if same {
			return m
		}
	}
	return nil
}

// value returns the value of a counter or gauge, and -1 if there is no such series.
func (p page) value(name string, labels ...string) float64 {
	m := p.find(name, labels...)
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	}
	return -1
}

// count returns the number of observations of a histogram, and -1 if there is no such series.
func (p page) count(name string, labels ...string) int64 {
	h := p.find(name, labels...).GetHistogram()
	if h == nil {
		return -1
	}
	return int64(h.GetSampleCount())
}

// series returns how many series a server stores for the page.
func (p page) series() int {
	n := 0
	for _, f := range p {
		for _, m := range f.GetMetric() {
			n++
			if h := m.GetHistogram(); h != nil {
				n += len(h.GetBucket()) + 1
			}
		}
	}
	return n
}
