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

// What Go says of words, replies and errors is what the library says.
func TestTheLibraryIsUpToDate(t *testing.T) {
	t.Parallel()
	want, err := write(library(t), root)
	require.NoError(t, err)
	assert.Equal(t, want, library(t), "run go generate ./functions")
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
