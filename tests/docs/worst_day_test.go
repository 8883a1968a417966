package docs_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each situation of spec/clients/worst-day.json has a row in outages.md, and each of its cells names tests that exist.
func TestEachCellOfTheWorstDayHasATest(t *testing.T) {
	t.Parallel()
	root := rootDir(t)
	text, err := os.ReadFile(filepath.Join(root, "spec/clients/worst-day.json"))
	require.NoError(t, err)
	var table struct {
		Cases []struct {
			Situation string
			Tests     map[string][]string
		}
	}
	require.NoError(t, json.Unmarshal(text, &table))
	page, err := os.ReadFile(filepath.Join(root, "docs/outages.md"))
	require.NoError(t, err)
	_, day, found := strings.Cut(string(page), "\n## The worst day\n")
	require.True(t, found)
	day, _, _ = strings.Cut(day, "\n## ")
	require.Len(t, table.Cases, 10)
	assert.Equal(t, len(table.Cases)+1, strings.Count(day, "\n|"), "a row for each: those that are killed and that hang share one")
	for _, c := range table.Cases {
		for _, column := range []string{"Go", "Node.js", "Python", "Java", "throttle-gateway"} {
			require.NotEmpty(t, c.Tests[column], "%s, %s", c.Situation, column)
			for _, test := range c.Tests[column] {
				file, name, _ := strings.Cut(test, ": ")
				source, err := os.ReadFile(filepath.Join(root, file))
				if assert.NoError(t, err) {
					assert.True(t, name != "" && strings.Contains(string(source), name), "%s has no %q", file, name)
				}
			}
		}
	}
}

// readsWallClock are the places that may read it: they tell a date, align windows with it at the start, or count across
// processes.
var readsWallClock = map[string]int{
	"clients/java/core/src/main/java/io/github/redisthrottle/LocalLimits.java": 1,
	"clients/node/src/guard/local.ts":                                          1,
	"clients/node/src/stores/express-rate-limit.ts":                            1,
	"clients/node/src/web/fields.ts":                                           1,
	"clients/python/src/redis_throttle/_layers/guard.py":                       1,
	"clients/python/src/redis_throttle/_web/fields.py":                         1,
	"clients/python/src/redis_throttle/celery.py":                              2,
	"clients/python/src/redis_throttle/limits.py":                              3,
	"gateway/internal/service/service.go":                                      1,
	"ratelimit/guard/local.go":                                                 1,
	"ratelimit/httplimit/httplimit.go":                                         1,
}

// wallClock is how each language reads it. In Go an instant is of both clocks until it becomes a number.
var wallClock = map[string]*regexp.Regexp{
	".go":   regexp.MustCompile(`\.Unix(Nano|Micro|Milli)?\(\)`),
	".ts":   regexp.MustCompile(`Date\.now\(|new Date\(\)`),
	".py":   regexp.MustCompile(`\btime\.time(_ns)?\(|datetime\.now\(`),
	".java": regexp.MustCompile(`currentTimeMillis|\b(Instant|LocalDate|LocalDateTime|ZonedDateTime)\.now\(`),
}

// A step of the process's clock moves no timeout, pause, breaker or remembered denial: nothing is measured by it.
func TestNothingIsMeasuredByTheWallClock(t *testing.T) {
	t.Parallel()
	root, reads := rootDir(t), map[string]int{}
	for _, folder := range []string{"ratelimit", "gateway/internal", "clients/node/src", "clients/python/src", "clients/java"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			name, _ := filepath.Rel(root, path)
			pattern := wallClock[filepath.Ext(path)]
			switch {
			case err != nil || entry.IsDir() || pattern == nil || strings.HasSuffix(path, "_test.go"):
				return err
			case strings.HasPrefix(name, "ratelimit/ratelimittest/"), regexp.MustCompile(`^clients/java/(bench|examples)/|/src/test/|/target/|^clients/node/src/functions/`).MatchString(name):
				return nil
			}
			source, err := os.ReadFile(path)
			if n := len(pattern.FindAll(source, -1)); n > 0 {
				reads[name] = n
			}
			return err
		}))
	}
	assert.Equal(t, readsWallClock, reads)
}
