package operating_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// ofOlderVersions are calls on a key each, and what version 0.1.0 does not know of the values that they leave.
var ofOlderVersions = []struct {
	name, refused string
	calls         []string
}{
	{"rate", "", []string{"CL.LIMIT rate RATE 5/h"}},
	{"throttled", "", []string{"CL.THROTTLE throttled 5 9 3600"}},
	{"reserved", "", []string{"CL.LIMIT reserved RATE 1/h MAXWAIT 9h", "CL.LIMIT reserved RATE 1/h MAXWAIT 9h"}},
	{"indebted", "", []string{"CL.LIMIT indebted RATE 5/h WINDOW 9/h FIXED 9/h COST 20 FORCE"}},
	{"stack", "", []string{"CL.LIMIT stack RATE 5/h RATE 9/d WINDOW 5/h FIXED 9/d FIXED 9/90s"}},
	{"spared", "", []string{"CL.LIMIT spared RATE 5/h SPARE 1 RATE 9/d TAKE 2 WINDOW 5/h SHADOW"}},
	{"one of two", "", []string{"CL.MLIMIT 1 #one|of|two RATE 5/h"}},
	{"banned", "ban", []string{"CL.BAN banned 1h"}},
	{"banned stack", "ban", []string{"CL.LIMIT #banned|stack WINDOW 1/h", "CL.BAN #banned|stack 1h"}},
	{"banned by a limit", "ban", []string{"CL.LIMIT #banned|by|a|limit RATE 1/h BAN 1h", "CL.LIMIT #banned|by|a|limit RATE 1/h BAN 1h"}},
	{"first", "FIRST", []string{"CL.LIMIT first RATE 9/h FIXED 5/h FIRST"}},
	{"week", "calendar", []string{"CL.LIMIT week FIXED 5/w"}},
	{"month", "calendar", []string{"CL.LIMIT month WINDOW 9/h FIXED 5/mo TZ Europe/Berlin"}},
	{"offset", "calendar", []string{"CL.LIMIT offset FIXED 5/d OFFSET 6h"}},
	{"utc", "", []string{"CL.LIMIT utc FIXED 5/d TZ UTC"}},
	{"kept", "", []string{"CL.LIMIT kept RATE 5/h", "CL.LIMIT kept WINDOW 5/h", "CL.LIMIT kept FIXED 5/d"}},
	{"kept month", "calendar", []string{"CL.LIMIT #kept|month FIXED 5/mo", "CL.LIMIT #kept|month RATE 5/h"}},
	{"kept rates", "", []string{"CL.LIMIT #kept|rates RATE 5/h RATE 9/d", "CL.LIMIT #kept|rates RATE 9/d", "CL.THROTTLE #kept|rates 5 9 60"}},
	{"denials", "denials", []string{"CL.LIMIT denials RATE 1/h BAN 9h AFTER 3/9h", "CL.LIMIT denials RATE 1/h BAN 9h AFTER 3/9h"}},
	{"lifted", "lift", []string{"CL.LIMIT lifted RATE 1/h RATE 9/m", "CL.LIMIT lifted RATE 1/h RATE 9/m MAXWAIT 9h"}},
}

// wordsOf divides a call, in which a name with blanks is written #a|b.
func wordsOf(call string) (args []string) {
	for _, word := range strings.Fields(call) {
		if name, blanks := strings.CutPrefix(word, "#"); blanks {
			word = strings.ReplaceAll(name, "|", " ")
		}
		args = append(args, word)
	}
	return args
}

// scripts/refused-keys finds the keys that version 0.1.0 refuses, and no others, whatever else is on the server.
func TestKeysThatAnOlderVersionRefusesAreFound(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	c := s.Raw()
	var want []string
	for _, r := range ofOlderVersions {
		for _, call := range r.calls {
			v, err := c.Do(wordsOf(call)...)
			require.NoError(t, err)
			require.False(t, v.IsError(), "%s: %v", call, v)
		}
		if r.refused != "" {
			want = append(want, r.refused+" "+r.name)
		}
	}
	for i := range 3000 { // more than a page of them
		s.MustDo("SET", "other"+strconv.Itoa(i), "\x01\x01\x04 of another program")
	}
	s.MustDo("SET", "short", "\x02")
	s.MustDo("SET", "cut", "\x01\x02\x03")
	s.MustDo("CL.LEASE", "jobs", "SLOTS", "1", "TTL", "1h", "ID", "a")
	s.MustDo("LPUSH", "a list", "x")
	slices.Sort(want)
	assert.Equal(t, want, refusedKeys(t, s))

	for _, r := range ofOlderVersions { // what the page says to do
		if r.refused == "ban" {
			s.MustDo("CL.BAN", r.name, "0")
		} else if r.refused != "" {
			s.MustDo("DEL", r.name)
		}
	}
	assert.Empty(t, refusedKeys(t, s))
}

func refusedKeys(t *testing.T, s *server.Server) []string {
	t.Helper()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	cli, err := server.CLIPath()
	require.NoError(t, err)
	cmd := exec.Command(filepath.Join(root, "scripts/refused-keys"), "-h", s.Host, "-p", strconv.Itoa(s.Port))
	cmd.Env = append(os.Environ(), "THROTTLE_CLI="+cli)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if lines[0] == "" {
		return nil
	}
	slices.Sort(lines)
	return lines
}

// The older version itself refuses those values and reads the others, as the page says.
func TestAnOlderVersionRefusesWhatThePageSays(t *testing.T) {
	t.Parallel()
	for version, refuses := range map[string]bool{"0.1.0": true, "0.2.0": false, "0.3.0": false} {
		t.Run(version, func(t *testing.T) {
			path := kit.OlderBuild(t, version)
			present, old := server.Start(t), server.Start(t, server.Module(path))
			for _, r := range ofOlderVersions {
				for _, call := range r.calls {
					present.MustDo(wordsOf(call)...)
				}
				old.MustDo("SET", r.name, present.MustDo("GET", r.name).Text)
				v := old.Do("CL.PEEK", r.name, "RATE", "5/s")
				want := "a reply"
				if refuses && r.refused != "" || r.refused == "denials" {
					want = "WRONGTYPE"
				}
				assert.Equal(t, want, outcome(v), "%s: %v", r.name, v)
			}
		})
	}
}

func outcome(v resp.Value) string {
	if v.IsError() {
		return strings.Fields(v.Text)[0]
	}
	return "a reply"
}
