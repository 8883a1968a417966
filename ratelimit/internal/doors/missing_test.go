package doors

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reply is an error that a server sent.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestWhatMeansThatACommandIsMissing(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../spec/clients/missing.json")
	require.NoError(t, err)
	var table struct {
		About    []string `json:"about"`
		Runs     []string `json:"runs"`
		Patterns struct {
			Missing string `json:"missing"`
			Right   string `json:"right"`
		} `json:"patterns"`
		Cases []struct {
			From      string `json:"from"`
			Sent      string `json:"sent"`
			Reply     reply  `json:"reply"`
			LeadsTo   string `json:"leads_to"`
			Lacks     string `json:"lacks"`
			AsksAgain int    `json:"asks_again_ms"`
		} `json:"cases"`
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&table))
	require.NotEmpty(t, table.Cases)
	assert.Contains(t, table.Runs, "Go")
	assert.Equal(t, "(?i)"+table.Patterns.Missing, missing.String())
	assert.Equal(t, "(?i)"+table.Patterns.Right, right.String())
	for _, c := range table.Cases {
		// The others are answers of a command that is there.
		isMissing := !slices.Contains([]string{"mistake", "outage", "load", "again", "EVAL"}, c.LeadsTo) && c.AsksAgain == 0
		assert.Equal(t, isMissing, IsMissing(c.Reply), "%s: %s", c.From, c.Reply)
		named := c.Lacks
		if !regexp.MustCompile("(?i)noperm").MatchString(string(c.Reply)) {
			named = "" // the client names what it sent
		}
		assert.Equal(t, named, Lacks(c.Reply), "%s: %s", c.From, c.Reply)
	}
}
