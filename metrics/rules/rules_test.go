package rules_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// added has the labels that the Prometheus server adds to what it scrapes.
var added = map[string]bool{"job": true, "instance": true}

// family returns the metric to which a series belongs. A histogram has several series.
func family(families map[string]*dto.MetricFamily, series string) *dto.MetricFamily {
	for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
		if f := families[strings.TrimSuffix(series, suffix)]; f != nil {
			if suffix == "" || f.GetType() == dto.MetricType_HISTOGRAM && strings.HasSuffix(series, suffix) {
				return f
			}
		}
	}
	return nil
}

// values returns the values that a label has in a metric; none if there is no such label.
func values(f *dto.MetricFamily, label string) (all []string) {
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == label {
				all = append(all, l.GetValue())
			}
		}
	}
	if label == "le" && f.GetType() == dto.MetricType_HISTOGRAM {
		all = append(all, "+Inf")
	}
	return all
}

func TestWhatDashboardAndAlertsAskForIsInAScrape(t *testing.T) {
	t.Parallel()
	families := scrape(t)
	asked := make(map[string]bool)
	for where, text := range expressions(t) {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
		require.NoError(t, err, where)
		var inside []*dto.MetricFamily
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			selector, ok := node.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			f := family(families, selector.Name)
			if !assert.NotNil(t, f, "%s: the metric %s", where, selector.Name) {
				return nil
			}
			asked[f.GetName()] = true
			inside = append(inside, f)
			for _, m := range selector.LabelMatchers {
				if m.Name == model.MetricNameLabel || added[m.Name] {
					continue
				}
				found := false
				for _, v := range values(f, m.Name) {
					found = found || m.Matches(v)
				}
				assert.True(t, found, "%s: a series with %s", where, m)
			}
			return nil
		})
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			group, ok := node.(*parser.AggregateExpr)
			if !ok {
				return nil
			}
			for _, label := range group.Grouping {
				for _, f := range inside {
					assert.True(t, added[label] || len(values(f, label)) > 0, "%s: the label %s of %s", where, label, f.GetName())
				}
			}
			return nil
		})
	}
	for name := range families {
		if name != "redimutex_released_total" { // the dashboard shows what is held instead: acquired minus released
			assert.True(t, asked[name], "%s is on the dashboard or in an alert", name)
		}
	}
}

func TestTheDashboardFitsWhoeverImportsIt(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	ours := source{"prometheus", "${datasource}"}
	ids := make(map[int]bool)
	taken := make(map[[2]int]string)
	assert.Equal(t, "redimutex", d.UID)
	assert.GreaterOrEqual(t, d.SchemaVersion, 38)
	assert.Equal(t, "datasource", d.Templating.List[0].Type)
	assert.Equal(t, "datasource", d.Templating.List[0].Name)
	families := scrape(t)
	for _, v := range d.Templating.List[1:] {
		metric, _, ok := strings.Cut(strings.TrimPrefix(v.Definition, "label_values("), ",")
		metric, _, _ = strings.Cut(metric, "{")
		assert.True(t, ok && families[metric] != nil, v.Definition)
	}
	for _, p := range d.Panels {
		assert.Equal(t, ours, p.Datasource, p.Title)
		assert.False(t, ids[p.ID], "the id of %s is free", p.Title)
		ids[p.ID] = true
		g := p.GridPos
		assert.LessOrEqual(t, g.X+g.W, 24, p.Title)
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				assert.Empty(t, taken[[2]int{x, y}], "%s lies over another panel", p.Title)
				taken[[2]int{x, y}] = p.Title
			}
		}
		assert.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			assert.Equal(t, ours, target.Datasource, p.Title)
		}
	}
}

func TestEveryAlertLeadsToARunbookThatExists(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	for _, a := range readAlerts(t) {
		assert.Contains(t, []string{"page", "ticket"}, a.Labels["severity"], a.Alert)
		assert.NotEmpty(t, a.Annotations["summary"], a.Alert)
		page, anchor, ok := strings.Cut(a.Annotations["runbook_url"], "#")
		require.True(t, ok, a.Alert)
		assert.Equal(t, "https://github.com/redimutex/redimutex/blob/main/docs/operations.md", page, a.Alert)
		headings := strings.ReplaceAll(strings.ToLower(string(text)), " ", "-")
		assert.Contains(t, headings, "\n###-"+anchor+"\n", a.Alert)
	}
}

func TestAlertsFireAtTroubleAndAtNothingElse(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool on the PATH, which evaluates the rules")
	}
	for _, command := range [][]string{{"check", "rules", "../../docs/alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		out, err := exec.Command(promtool, command...).CombinedOutput()
		assert.NoError(t, err, "%s", out)
	}
}
