package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheGrammarIsTheParsers(t *testing.T) {
	t.Parallel()
	written, err := os.ReadFile("../commands.json")
	require.NoError(t, err)
	table, err := grammar()
	require.NoError(t, err)
	assert.Equal(t, string(table), string(written), "go generate ./spec writes it anew")
}
