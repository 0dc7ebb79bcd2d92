package rules_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
	redimutexprom "github.com/redimutex/redimutex/metrics/prometheus"
)

// A dashboard has the parts of docs/grafana.json that the tests look at.
type dashboard struct {
	UID           string
	SchemaVersion int
	Templating    struct {
		List []struct {
			Name, Type, Definition string
		}
	}
	Panels []struct {
		ID         int
		Title      string
		Datasource source
		GridPos    struct{ X, Y, W, H int }
		Targets    []struct {
			Datasource source
			Expr       string
			RefID      string
		}
	}
}

type source struct{ Type, UID string }

func readDashboard(t testing.TB) (d dashboard) {
	text, err := os.ReadFile("../../docs/grafana.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	require.NotEmpty(t, d.Panels)
	return d
}

// An alert has the parts of a rule in docs/alerts.yml that the tests look at.
type alert struct {
	Alert, Expr string
	Annotations map[string]string
	Labels      map[string]string
}

func readAlerts(t testing.TB) (all []alert) {
	text, err := os.ReadFile("../../docs/alerts.yml")
	require.NoError(t, err)
	var file struct{ Groups []struct{ Rules []alert } }
	require.NoError(t, yaml.Unmarshal(text, &file))
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

// expressions returns the expressions of the dashboard and the alerts as Prometheus gets them. The keys say where each stands.
func expressions(t testing.TB) map[string]string {
	all := make(map[string]string)
	variables := strings.NewReplacer("$__rate_interval", "4m", "$__range", "1h", "$job", ".*", "$instance", ".*")
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			all["panel "+p.Title+" "+target.RefID] = variables.Replace(target.Expr)
		}
	}
	for _, a := range readAlerts(t) {
		all["alert "+a.Alert] = a.Expr
	}
	return all
}

// scrape returns the metrics of a Client that has locked, given up, and released.
func scrape(t testing.TB) map[string]*dto.MetricFamily {
	s := redistest.Start(t)
	client := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithTTL(time.Minute))
	defer client.Close()
	collector := redimutexprom.New(client)
	defer collector.Close()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(collector))
	m := client.Mutex("k")
	m.Lock()
	require.ErrorIs(t, m.TryLockContext(t.Context()), redimutex.ErrLocked)
	m.Unlock()

	gathered, err := registry.Gather()
	require.NoError(t, err)
	families := make(map[string]*dto.MetricFamily)
	for _, f := range gathered {
		families[f.GetName()] = f
	}
	return families
}
