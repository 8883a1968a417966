package migrating

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// What aborts a server with redis-cell is answered by one with this module. Each line has a server of its own.
func TestWhatAbortsRedisCellIsAnswered(t *testing.T) {
	cell := begin(t)
	for name, c := range map[string]struct {
		before []string
		call   []string
		ours   string // the reply begins so
	}{
		"a string":               {[]string{"SET", "k", "foo"}, call("k", "15 30 60"), "(error) WRONGTYPE"},
		"an empty string":        {[]string{"SET", "k", ""}, call("k", "15 30 60"), "(error) WRONGTYPE"},
		"a negative number":      {[]string{"SET", "k", "-1"}, call("k", "15 30 60"), "(error) WRONGTYPE"},
		"a list":                 {[]string{"RPUSH", "k", "1"}, call("k", "15 30 60"), "(error) WRONGTYPE"},
		"a hash":                 {[]string{"HSET", "k", "a", "1"}, call("k", "15 30 60"), "(error) WRONGTYPE"},
		"a key that is no UTF-8": {nil, call("\xff", "15 30 60"), "*[0 16 15 -1 2]"},
		"a number that is none":  {nil, call("k", "15 30 \xff"), "(error) ERR period"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			theirs, our := server.Start(t, cell), server.Start(t)
			if c.before != nil {
				theirs.MustDo(c.before...)
				our.MustDo(c.before...)
			}
			requireAbort(t, theirs, c.call...)
			got := our.Do(c.call...).String()
			assert.True(t, strings.HasPrefix(got, c.ours), "%q answers %s", c.call, got)
			assert.Equal(t, "PONG", our.MustDo("PING").Text)
		})
	}
}

// requireAbort sends a command that ends the server.
func requireAbort(t *testing.T, s *server.Server, words ...string) {
	t.Helper()
	s.ExpectCrash()
	c := s.Raw()
	require.NoError(t, c.Send(words...))
	require.NoError(t, c.Flush())
	v, err := c.Receive()
	require.Error(t, err, "%q answers %v", words, v)
	require.Eventually(t, func() bool { return !s.Running() }, patience, 1e6)
	require.NotEmpty(t, s.LogLines("panicked at"), "it ended for another reason")
}

// What redis-cell makes of all that this module writes: it goes on from a number, also one beyond 2^63; it
// refuses most other values, and aborts the server when their bytes happen to be UTF-8.
func TestWhatRedisCellReadsOfOurValues(t *testing.T) {
	cell := begin(t)
	our, theirs := server.Start(t), server.Start(t, cell)
	carry := func(key string) string {
		t.Helper()
		value := our.MustDo("GET", key).Text
		theirs.MustDo("SET", key, value)
		return value
	}

	t.Run("CL.THROTTLE", func(t *testing.T) {
		throttle(t, our, "throttle", daily+" 6")
		carry("throttle")
		assert.EqualValues(t, 10, remaining(t, theirs, "throttle"))
	})
	t.Run("CL.LIMIT with one RATE", func(t *testing.T) {
		our.MustDo("CL.LIMIT", "rate", "RATE", "1/d", "BURST", "16", "COST", "6")
		carry("rate")
		assert.EqualValues(t, 10, remaining(t, theirs, "rate"))
	})
	t.Run("a time beyond 2^63", func(t *testing.T) {
		const long = "0 1 8500000000" // 269 years, into the year 2295
		throttle(t, our, "long", long)
		value := carry("long")
		tat, err := strconv.ParseUint(value, 10, 64)
		require.NoError(t, err)
		require.Greater(t, tat, uint64(1)<<63)
		want := throttle(t, our, "long", long)
		require.EqualValues(t, 1, want[0])
		got := throttle(t, theirs, "long", long)
		assert.Equal(t, want[:3], got[:3])
		assert.InDelta(t, want[3], got[3], 60, "seconds, as long as the test takes")
	})
	for name, words := range map[string][]string{
		"several limits": {"CL.LIMIT", "k", "RATE", "5/m", "RATE", "100/h"},
		"a window":       {"CL.LIMIT", "k", "WINDOW", "5/m"},
		"a fixed window": {"CL.LIMIT", "k", "FIXED", "5/d"},
		"a debt":         {"CL.LIMIT", "k", "RATE", "1/h", "COST", "5", "FORCE"},
	} {
		t.Run(name, func(t *testing.T) {
			our.MustDo("DEL", "k")
			our.MustDo(words...)
			value := carry("k")
			require.False(t, utf8.ValidString(value), "%q", value)
			assert.Contains(t, theirs.Do(call("k", daily)...).Text, "Cell error: invalid utf-8 sequence")
		})
	}
	t.Run("a ban whose bytes are UTF-8", func(t *testing.T) {
		for days := 90; ; days++ {
			require.Less(t, days, 20_000, "no such ban")
			our.MustDo("CL.BAN", "ban", "0")
			our.MustDo("CL.BAN", "ban", fmt.Sprint(days, "d"))
			if utf8.ValidString(our.MustDo("GET", "ban").Text) {
				break
			}
		}
		carry("ban")
		requireAbort(t, theirs, call("ban", daily)...)
	})
}

// The page's way to find keys that redis-cell cannot read finds them, and no others.
func TestPageFindsWhatRedisCellCannotRead(t *testing.T) {
	t.Parallel()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "migrating.md"))
	require.NoError(t, err)
	var script string
	for line := range strings.Lines(string(page)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "redis-cli --scan") {
			script = line
		}
	}
	require.NotEmpty(t, script)
	s := server.Start(t)
	cli, err := server.CLIPath()
	require.NoError(t, err)
	throttle(t, s, "limit:a", daily)
	s.MustDo("CL.LIMIT", "limit:b", "RATE", "1/d")
	s.MustDo("CL.LIMIT", "limit:c", "WINDOW", "5/d")
	s.MustDo("CL.BAN", "limit:d", "1d")
	s.MustDo("CL.LIMIT", "limit:e", "RATE", "5/m", "RATE", "100/d")
	s.MustDo("RPUSH", "limit:f", "1")
	s.MustDo("RPUSH", "another", "1")
	// The states of limits are bytes like any others, and grep takes a zero byte for the end of a line, too.
	s.MustDo("SET", "limit:g", "\x01\x005\x00")
	s.MustDo("SET", "limit:h", "\x01\n5\n")
	// Its redis-cli is the one of the tests, on the server of this one.
	script = fmt.Sprintf("redis-cli() { %q -p %d \"$@\"; }\n%s", cli, s.Port, script)
	out, err := exec.Command("bash", "-c", script).CombinedOutput()
	require.NoError(t, err, "%s", out)
	want := []string{"limit:c", "limit:d", "limit:e", "limit:f", "limit:g", "limit:h"}
	assert.ElementsMatch(t, want, strings.Fields(string(out)))
}
