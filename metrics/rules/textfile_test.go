package rules_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// listed is output of redimutex list -json: a lock whose names need quoting, one without an age, and one that is not held.
const listed = `{"complete":true,"asked":"127.0.0.1:6379/0","locks":[
{"key":"cron:\"a\\b\"","held":true,"owner":"vm pid 1: sleep","foreign":false,"ttl_ms":7583,"age_ms":2417,"waiting":2},
{"key":"cron:\tb\u007f","held":true,"owner":"","foreign":true,"ttl_ms":7000,"age_ms":-1,"waiting":0},
{"key":"cron:c","held":false,"owner":"","ttl_ms":0,"age_ms":-1,"waiting":0}],"errors":[]}`

func TestTheRecipeForTheShellMakesMetricsOfAList(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("needs jq on the PATH")
	}
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, program, ok := strings.Cut(string(page), "| jq -r '")
	require.True(t, ok)
	program, _, ok = strings.Cut(program, "' >")
	require.True(t, ok)
	jq := exec.Command("jq", "-r", program)
	jq.Stdin = strings.NewReader(listed)
	out, err := jq.Output()
	require.NoError(t, err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(out)))
	require.NoError(t, err, "%s", out)
	assert.Equal(t, 1.0, families["redimutex_list_complete"].GetMetric()[0].GetUntyped().GetValue())
	ttl := families["redimutex_list_ttl_seconds"].GetMetric()
	require.Len(t, ttl, 2)
	assert.Equal(t, `cron:"a\b"`, ttl[0].GetLabel()[0].GetValue())
	assert.Equal(t, 7.583, ttl[0].GetUntyped().GetValue())
	assert.Equal(t, "cron: b ", ttl[1].GetLabel()[0].GetValue(), "Prometheus takes no other escapes than that of a newline")
	age := families["redimutex_list_age_seconds"].GetMetric()
	require.Len(t, age, 1)
	assert.Equal(t, 2.417, age[0].GetUntyped().GetValue())
}
