package server_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/bench/internal/server"
)

func TestInfoIsFieldsOfAllSections(t *testing.T) {
	info := server.ParseInfo("# Server\r\nredis_version:7.0.15\r\n\r\n# CPU\r\nused_cpu_sys:0.25\r\nused_cpu_user:0.5\r\n" +
		"# Commandstats\r\ncmdstat_cl.throttle:calls=40000,usec=60535,usec_per_call=1.51,rejected_calls=2,failed_calls=1\r\n")
	assert.Equal(t, "Redis 7.0.15", info.Version())
	assert.Equal(t, 0.75, info.CPUSeconds())
	assert.Zero(t, info.Number("no_such_field"))

	stats, err := info.CommandStats("CL.THROTTLE")
	require.NoError(t, err)
	assert.Equal(t, server.CommandStats{Calls: 40000, Failed: 3, Usec: 60535}, stats)
	stats, err = info.CommandStats("get")
	require.NoError(t, err)
	assert.Zero(t, stats, "never called")

	_, err = server.ParseInfo("cmdstat_get:calls=many\r\n").CommandStats("get")
	assert.Error(t, err)
}
