package service

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Clients choose the values of detailed_metric: their bytes, their length and how many there are.
func TestMetricsKeepLittleOfWhatClientsSend(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(registry, func() bool { return false })
	long := strings.Repeat("a", longestLabel-1) + "é" + strings.Repeat("b", 1<<20)
	for _, value := range []string{long, long + "c", "/\xff"} {
		m.rule(ruleName{"web", [2]string{"path_" + value, value}}, true).total.Inc()
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	series := 0
	for _, family := range families {
		for _, one := range family.GetMetric() {
			if family.GetName() == "ratelimit_service_rate_limit_total_hits" {
				series++
			}
			for _, label := range one.GetLabel() {
				assert.LessOrEqual(t, len(label.GetValue()), longestLabel+len("\uFFFD"), label.GetName())
				assert.True(t, utf8.ValidString(label.GetValue()))
			}
		}
	}
	assert.Equal(t, 2, series, "values that begin alike are one series")
	for name := range m.rules {
		for _, text := range name.path {
			assert.LessOrEqual(t, len(text), longestLabel)
		}
	}
}

// A flood of values that clients choose leaves the rules of the file their room, also those that come later.
func TestTheRulesOfTheFileKeepTheirSeries(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(registry, func() bool { return false })
	for i := range mostRules + 10 {
		m.rule(ruleName{"web", [2]string{"path_" + strconv.Itoa(i)}}, true).total.Inc()
	}
	m.rule(ruleName{"shop", [2]string{"user"}}, false).total.Inc()
	families, err := registry.Gather()
	require.NoError(t, err)
	count := func(key1 string) float64 {
		for _, family := range families {
			for _, one := range family.GetMetric() {
				if family.GetName() == "ratelimit_service_rate_limit_total_hits" && one.GetLabel()[1].GetValue() == key1 {
					return one.GetCounter().GetValue()
				}
			}
		}
		return 0
	}
	assert.EqualValues(t, 1, count("user"))
	assert.EqualValues(t, 10, count("other"))
}
