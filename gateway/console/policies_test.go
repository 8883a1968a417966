package console

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A hash that stays as it was is not parsed again, and a value that is no policy is cut on the page.
func TestAHashIsParsedWhenItChanges(t *testing.T) {
	p, fields := policies{}, map[string]string{"api": strings.Repeat("x", 1<<20), "web": "RATE 5/m"}
	p.take(maps.Clone(fields))
	require.Len(t, p.sorted, 2)
	assert.Less(t, len(p.sorted[0].Value)+len(p.sorted[0].Limits)+len(p.sorted[0].Error), 2000)
	first := &p.sorted[0]
	p.take(maps.Clone(fields))
	assert.Same(t, first, &p.sorted[0])
	fields["web"] = "RATE 6/m"
	p.take(maps.Clone(fields))
	assert.Equal(t, "RATE 6/m", p.sorted[1].Value)
	assert.Equal(t, "RATE 6/m", p.rules.Choose("web", "k").Text)
}
