package upstream_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each variable of the environment that upstream reads is one of ours, or one of those that the gateway names at its
// start because they mean nothing here. None is ignored without a word.
func TestEachVariableOfUpstreamIsKnown(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "gateway", "internal", "settings")
	source := func(name string) string {
		text, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		return string(text)
	}
	ours := map[string]bool{}
	text := source("xds.go") + source("settings.go")
	for _, prefix := range []string{"", "REDIS_", "TRACING_"} {
		part := text
		if prefix != "" {
			_, part, _ = strings.Cut(text, "type "+map[string]string{"REDIS_": "Redis", "TRACING_": "Tracing"}[prefix]+" struct {")
			part, _, _ = strings.Cut(part, "\n}\n")
		} else {
			part, _, _ = strings.Cut(part, "type Redis struct")
		}
		for _, m := range regexp.MustCompile("env:\"([A-Z_]+)\"").FindAllStringSubmatch(part, -1) {
			ours[prefix+m[1]] = true
		}
	}
	require.True(t, ours["REDIS_URL"] && ours["HOST"] && ours["TRACING_ENABLED"])
	ignored := regexp.MustCompile(`(?m)^\t"([A-Z_]+\*?)": `).FindAllStringSubmatch(source("ignored.go"), -1)
	require.NotEmpty(t, ignored)
	isIgnored := func(name string) bool {
		for _, m := range ignored {
			prefix, isPrefix := strings.CutSuffix(m[1], "*")
			if m[1] == name || (isPrefix && strings.HasPrefix(name, prefix)) {
				return true
			}
		}
		return false
	}
	known := reflect.TypeFor[settings.Settings]()
	for i := range known.NumField() {
		name := known.Field(i).Tag.Get("envconfig")
		if name == "" { // an option of its constructor
			continue
		}
		assert.True(t, ours[name] || isIgnored(name), "%s is neither a variable of the gateway nor named as one that it ignores", name)
		assert.False(t, ours[name] && isIgnored(name), "%s is both", name)
	}
}
