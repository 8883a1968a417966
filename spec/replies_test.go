package spec_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/command"
)

// Clients read fields by their positions, such as key of CL.MLIMIT at index 10. A field that moves is read as another
// one by every client that was released before: append new fields to the list of the one reply that has them.
func TestRepliesKeepTheOrderOfTheirFields(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("replies.json")
	require.NoError(t, err)
	var table struct {
		Replies []struct {
			Name             string
			Commands, Fields []string
		}
	}
	require.NoError(t, json.Unmarshal(text, &table))
	told := map[string]bool{"CL.INSPECT": true, "CL.LEASES": true, "CL.TOP": true} // which are read by name
	for _, reply := range table.Replies {
		for _, name := range reply.Commands {
			told[name] = true
			if fields := command.Named([]byte(name)).Fields; fields != nil {
				assert.Equal(t, reply.Fields, fields, name)
			}
		}
		if reply.Name == "each" {
			assert.Len(t, reply.Fields, command.EachFields)
		}
	}
	for _, cmd := range command.All {
		assert.True(t, told[cmd.Name] || cmd.Fields == nil, "%s is not in the table", cmd.Name)
	}
}
