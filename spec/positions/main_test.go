package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheClientsHaveThePositionsOfTheTable(t *testing.T) {
	table, err := os.ReadFile("../replies.json")
	require.NoError(t, err)
	replies, err := parse(table)
	require.NoError(t, err)
	for path, in := range languages {
		text, err := os.ReadFile(filepath.Join("..", "..", path))
		require.NoError(t, err)
		assert.Equal(t, string(in(replies)), string(text), "%s is not what go generate ./spec writes", path)
	}
}
