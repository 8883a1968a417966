package load_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/bench/throttle-bench/internal/load"
)

func parseFile(t *testing.T, name string) (load.Report, error) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return load.ParseBenchmark(f)
}

func TestTheOutputOfRedisBenchmarkIsReadAsItPrintsIt(t *testing.T) {
	for _, tt := range []struct {
		file string
		want load.Report
	}{
		{"redis-benchmark-7.0.txt", load.Report{
			CallsPerSecond: 98522.17,
			Latency:        load.Latency{P50: 319, P95: 591, P99: 1095, P999: 2079},
		}},
	} {
		got, err := parseFile(t, tt.file)
		require.NoError(t, err)
		assert.Equal(t, tt.want, got, tt.file)
	}
}

func TestP999IsTheFirstListedLatencyThatCoversIt(t *testing.T) {
	const head = "Latency by percentile distribution:\n"
	const tail = "\nCumulative distribution of latencies:\n" +
		"100.000% <= 9.103 milliseconds (cumulative count 1000)\n" +
		"\nSummary:\n  throughput summary: 10.00 requests per second\n  latency summary (msec):\n" +
		"          avg       min       p50       p95       p99       max\n" +
		"        0.373     0.128     0.351     0.535     0.863     6.367\n"
	for _, tt := range []struct {
		name, list string
		want       float64
	}{
		{"reached exactly", "50.000% <= 0.351 milliseconds (cumulative count 600)\n" +
			"99.805% <= 0.700 milliseconds (cumulative count 999)\n" +
			"100.000% <= 0.800 milliseconds (cumulative count 1000)\n", 700},
		{"missed by one", "99.805% <= 0.700 milliseconds (cumulative count 998)\n" +
			"100.000% <= 0.800 milliseconds (cumulative count 1000)\n", 800},
		{"all alike", "100.000% <= 0.031 milliseconds (cumulative count 1000)\n", 31},
	} {
		got, err := load.ParseBenchmark(strings.NewReader(head + tt.list + tail))
		require.NoError(t, err, tt.name)
		assert.Equal(t, tt.want, got.Latency.P999, tt.name)
	}
}

func TestARunWithinAMillisecondHadAtLeastSoManyCallsASecond(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join("testdata", "redis-benchmark-7.0.txt"))
	require.NoError(t, err)
	instant := strings.Replace(string(whole), "98522.17 requests", "inf requests", 1)
	got, err := load.ParseBenchmark(strings.NewReader(instant))
	require.NoError(t, err)
	want, err := load.ParseBenchmark(strings.NewReader(string(whole)))
	require.NoError(t, err)
	assert.Equal(t, want.Latency, got.Latency)
	assert.Greater(t, got.CallsPerSecond, 1000.0)
	assert.False(t, math.IsInf(got.CallsPerSecond, 0))
}

func TestOutputThatEndsEarlyIsAnError(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join("testdata", "redis-benchmark-7.0.txt"))
	require.NoError(t, err)
	lastNumber := strings.LastIndexByte(strings.TrimSpace(string(whole)), ' ')
	for _, cut := range []int{0, 1, len(whole) / 2, strings.Index(string(whole), "Summary"), lastNumber} {
		_, err := load.ParseBenchmark(strings.NewReader(string(whole[:cut])))
		assert.Error(t, err, "first %d bytes", cut)
	}
}
