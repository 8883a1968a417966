package policies_test

import (
	"bytes"
	"context"
	"log"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit/policies"
)

// The default logger writes messages as they are. It is the program's own, so this test runs alone.
func TestAFieldIsPartOfOneLine(t *testing.T) {
	var written bytes.Buffer
	before := log.Writer()
	log.SetOutput(&written)
	defer log.SetOutput(before)
	hash := map[string]string{}
	reader := policies.NewReader(nil, policies.Options{Read: func(context.Context) (map[string]string, error) { return hash, nil }})
	require.NoError(t, reader.Read(t.Context()))
	for _, value := range []string{"RATE 5/m", "RATE 6/m", "no limit"} {
		hash = map[string]string{"api/a\nb\x1b[2J": value}
		require.NoError(t, reader.Read(t.Context()))
	}
	hash = nil
	require.NoError(t, reader.Read(t.Context()))
	assert.Equal(t, 4, bytes.Count(written.Bytes(), []byte("\n")), written.String())
	assert.NotContains(t, written.String(), "\x1b")
	assert.Contains(t, written.String(), `policy api/a\nb\x1b[2J is "RATE 5/m" now`)
}
