package adapters

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// rueidis has a typed GCRA, of a command that no release of Redis has.
func TestTheTypedGCRAOfRueidis(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.ModuleArgs("aliases", "GCRA"))
	client := connect(t, on(s))
	b := client.B().Gcra().Key("k").MaxBurst(15).TokensPerPeriod(30)
	got, err := client.Do(t.Context(), b.Period(86400).Build()).AsIntSlice()
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 16, 15, -1, 2880}, got)
	got, err = client.Do(t.Context(), client.B().Gcra().Key("k").MaxBurst(15).TokensPerPeriod(30).Period(86400.5).Count(16).Build()).AsIntSlice()
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 16}, got[:2], "one unit too many")
	assert.Positive(t, got[3])
}
