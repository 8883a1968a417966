package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func library(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "throttle.lua"))
	require.NoError(t, err)
	return string(text)
}

const root = "../.."

// The library is its rooms, and what Go says of words, replies and errors is what it says.
func TestTheLibraryIsUpToDate(t *testing.T) {
	t.Parallel()
	joined, err := join(filepath.Join("..", "library"))
	require.NoError(t, err)
	want, err := write(joined, root)
	require.NoError(t, err)
	assert.True(t, want == library(t), "functions/throttle.lua is stale: run go generate ./functions")
}

// A file that nothing puts into the library, and a room that is missing, are errors.
func TestARoomIsNeitherForgottenNorMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := join(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, name := range rooms {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".lua"), []byte("-- "+name+"\n"), 0o600))
	}
	joined, err := join(dir)
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(joined, "-- head\n\n-- numbers\n"), joined)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "attic.lua"), nil, 0o600))
	_, err = join(dir)
	assert.ErrorContains(t, err, "attic.lua is not among the rooms")
}

// Rooms stay short enough to be read at a glance.
func TestRoomsAreShort(t *testing.T) {
	t.Parallel()
	for _, name := range rooms {
		text, err := os.ReadFile(filepath.Join("..", "library", name+".lua"))
		require.NoError(t, err)
		assert.LessOrEqual(t, strings.Count(string(text), "\n"), 400, name)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	for text, problem := range map[string]string{
		"":                                    "lacks the lines",
		begin + end + "TEXT.nothing":          "is called nothing",
		begin + end + "TEXT.maxValueIsNoText": "is called maxValueIsNoText",
	} {
		_, err := write(text, root)
		assert.ErrorContains(t, err, problem, text)
	}
	_, err := write(begin+end, t.TempDir())
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestLinesOfTheLibraryFit(t *testing.T) {
	t.Parallel()
	_, hand, _ := strings.Cut(library(t), end)
	for i, line := range strings.Split(hand, "\n") {
		assert.LessOrEqual(t, len(line), 160, "line %d behind the tables", i+1)
		assert.Equal(t, strings.TrimRight(line, " \t"), line, "line %d ends in blanks", i+1)
	}
}
