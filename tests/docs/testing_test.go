package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The Go on docs/testing.md is a file of tests that run.
func TestExamplesOfTestsRun(t *testing.T) {
	t.Parallel()
	var code []string
	for _, b := range readPage(t, rootDir(t), filepath.Join(rootDir(t), "docs/testing.md")).blocks() {
		if b.language == "go" {
			code = append(code, strings.Join(b.lines, "\n")+"\n")
		}
	}
	require.Greater(t, len(code), 5)
	tests, err := os.ReadFile(filepath.Join(rootDir(t), "ratelimit/ratelimittest/page_test.go"))
	require.NoError(t, err)
	assert.Equal(t, string(tests), "package ratelimittest_test\n\n"+strings.Join(code, "\n"))
}
