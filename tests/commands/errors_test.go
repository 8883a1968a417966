package commands_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// Every refused call: its arguments after the key, and how the error must begin and
// what it must name.
var refusals = func() (table []refusal) {
	// What is no number, whichever argument it is.
	noNumbers := []string{
		"", "abc", "1e3", "01", "00", "+1", "+0", "-0", "-01", "1.", ".5", "1.5.5", "-1.5", "01.5", "+1.5", "0x10", " 1", "1 ", "1,000", "+", "-", "--1", "+-1", "1\x00", "\x00", "1\n", "nan", "inf",
		"\xff\xfe", "\u0661", "9223372036854775808", "-9223372036854775809", "18446744073709551616",
		strings.Repeat("9", 40), strings.Repeat("0", 1<<20), "%s%s%n", "15 30 60",
	}
	for i, name := range []string{"max_burst", "count_per_period", "period", "quantity"} {
		bad := append([]string{"-1", "-9223372036854775808"}, noNumbers...)
		if name != "period" {
			bad = append(bad, "1.5", "1.0")
		}
		switch name {
		case "max_burst":
			bad = append(bad, "9223372036854775807") // + 1 is the limit
		case "count_per_period":
			bad = append(bad, "0")
		case "period":
			bad = append(bad, "0", "0ms", "0.0", "0.0s", "-0s", "-1s", "-1.5s", "1.s", ".5s", "01s", "+1s", "0.0000000001", "1.0000001ms",
				"1."+strings.Repeat("3", 40)+"d", "0."+strings.Repeat("0", 1<<20), "18446744073709551616.5", "ms", "d", "1x", "1ss", "1 s", "s1", "1S", "1\u00b5s", "1us", "1s1", "1h30m", "+s")
		}
		for _, word := range bad {
			args := []string{"15", "30", "60", "1"}
			args[i] = word
			table = append(table, refusal{args, "ERR", name})
		}
	}
	for _, args := range []string{
		"0 1000000001 1", "15 9223372036854775807 1", "0 1000001 1ms", "5 86400000000001 1d",
		"9223372036854775806 9223372036854775807 60",
	} {
		table = append(table, refusal{strings.Fields(args), "ERR", "count_per_period"})
	}
	for _, args := range []string{
		"0 1 9223372037", "0 1 106752d", "0 1 9223372036854775807", "0 1 9223372036854775807d", "1 1 106751d",
		"9223372036854775806 1 1", "9223372036854775806 999999999 1", "9223372036854775806 1 9223372036854775807d",
	} {
		table = append(table,
			refusal{strings.Fields(args), "ERR", "max_burst"},
			refusal{strings.Fields(args), "ERR", "period"},
			refusal{strings.Fields(args), "ERR", "292 years"})
	}
	for _, args := range []string{"", "15", "15 30", "15 30 60 1 1", strings.Repeat("1 ", 15), strings.Repeat("1 ", 16), strings.Repeat("1 ", 1000)} {
		table = append(table, refusal{strings.Fields(args), "ERR", "wrong number of arguments for"})
	}
	return table
}()

type refusal struct {
	args   []string
	prefix string
	names  string
}

// Keys of every length and all bytes: a key is never looked into.
func oddKeys() []string {
	var all []byte
	for b := range 256 {
		all = append(all, byte(b))
	}
	random := rand.New(rand.NewChaCha8([32]byte{}))
	megabyte := make([]byte, 1<<20)
	for i := range megabyte {
		megabyte[i] = byte(random.Uint32())
	}
	return []string{"", "k", "\x00", "\r\n", "%s%n%d", "\xc3\x28", string(all), strings.Repeat("k", 64<<10), string(megabyte)}
}

func TestBadArgumentsAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	w := kit.StartWatched(t)
	for _, key := range oddKeys() {
		for _, present := range []bool{false, true} {
			if present {
				_, err := kit.AnswerIn(w.Call(t, append([]string{"CL.THROTTLE", key}, "15", "1", "1d")...))
				require.NoError(t, err)
			}
			before := w.Traces(t, key)
			for _, r := range refusals {
				if len(key) > 1000 && len(r.args) > 3 && len(r.args[0]) > 1000 {
					continue // a megabyte each is enough
				}
				call := append([]string{"CL.THROTTLE", key}, r.args...)
				v := w.Call(t, call...)
				about := fmt.Sprintf("CL.THROTTLE %.20q %.50q", key, r.args)
				require.True(t, v.IsError(), "%s answers %v", about, v)
				assert.True(t, strings.HasPrefix(v.Text, r.prefix+" "), "%s answers %v", about, v)
				assert.Contains(t, v.Text, r.names, about)
				assert.LessOrEqual(t, len(v.Text), 200, "%s: an error is a sentence", about)
			}
			// Together: one write among all those calls would show.
			assert.Equal(t, before, w.Traces(t, key), "key %.20q", key)
		}
	}
	assert.True(t, w.Call(t, "CL.THROTTLE").IsError(), "no key at all")
}

func TestKeysOfAnyBytesAndLengthAreLimited(t *testing.T) {
	t.Parallel()
	w := kit.StartWatched(t)
	for _, key := range oddKeys() {
		for _, remaining := range []int64{2, 1, 0, 0} {
			a, err := kit.AnswerIn(w.Call(t, "CL.THROTTLE", key, "2", "1", "1d"))
			require.NoError(t, err, "%.20q", key)
			assert.Equal(t, remaining, a.Remaining, "%.20q", key)
		}
	}
	assert.EqualValues(t, len(oddKeys()), w.Call(t, "DBSIZE").Int)
}

// A key may hold whatever another client put there.
func TestKeysThatHoldNoLimiterAreRefusedAndStayAsTheyAre(t *testing.T) {
	t.Parallel()
	w := kit.StartWatched(t, server.Config("auto-aof-rewrite-percentage 0"))
	fill := map[string][]string{
		"list":            {"RPUSH", "K", "1"},
		"hash":            {"HSET", "K", "f", "1"},
		"set":             {"SADD", "K", "1"},
		"sorted set":      {"ZADD", "K", "1", "1"},
		"stream":          {"XADD", "K", "*", "f", "1"},
		"bar":             {"SET", "K", "bar"},
		"40 digits":       {"SET", "K", strings.Repeat("1", 40)},
		"beyond 64 bits":  {"SET", "K", "18446744073709551616"},
		"-5":              {"SET", "K", "-5"},
		"+5":              {"SET", "K", "+5"},
		"empty string":    {"SET", "K", ""},
		"a fraction":      {"SET", "K", "1.5"},
		"a blank":         {"SET", "K", " 5"},
		"a leading zero":  {"SET", "K", "05"},
		"a zero byte":     {"SET", "K", "5\x00"},
		"all bytes":       {"SET", "K", oddKeys()[6]},
		"a megabyte":      {"SET", "K", oddKeys()[8]},
		"with an expiry":  {"SET", "K", "bar", "EX", "10000"},
		"bits":            {"SETBIT", "K", "100", "1"},
		"a HyperLogLog":   {"PFADD", "K", "1"},
		"digits and more": {"SET", "K", "1700000000000000000x"},
		"high bytes":      {"SET", "K", "\xff\xff\xff"},
		"low bytes":       {"SET", "K", strings.Repeat("\x01", 9000)},
	}
	kit.Ask(t, w.Conn, "CL.LIMIT state RATE 5/h WINDOW 7/d FIXED 9/d COST 2")
	state := w.Call(t, "GET", "state").Text
	for i, value := range []string{state + "\x00", state[:len(state)-1], "\xee" + state[1:], state[:1], state + state} {
		fill[fmt.Sprint("a damaged state ", i)] = []string{"SET", "K", value}
	}
	for what, command := range fill {
		for _, key := range oddKeys() {
			command[1] = key
			require.False(t, w.Call(t, command...).IsError(), what)
			before := w.Traces(t, key)
			for _, call := range []string{
				"THROTTLE 15 30 60", "THROTTLE 15 30 60 0", "THROTTLE 15 30 60 17", "LIMIT RATE 5/h", "LIMIT WINDOW 7/d RATE 5/h",
				"PEEK RATE 5/h", "REFUND RATE 5/h", "WAIT RATE 5/h TIMEOUT 1s",
			} {
				words := strings.Fields("CL." + call)
				v := w.Call(t, slices.Insert(words, 1, key)...)
				assert.True(t, v.IsError() && strings.HasPrefix(v.Text, "WRONGTYPE "), "%s, %s: %v", what, call, v)
			}
			assert.Equal(t, before, w.Traces(t, key), what)
			w.Call(t, "DEL", key)
		}
	}
}

// wordRefusals are calls of the commands that speak in words: the command, its arguments after the key, and what the error
// must say. The bytes that a client sent come back on one line. spec/errors.txt has the rest.
func wordRefusals() []wordRefusal {
	long := strings.Repeat("x", 1<<20)
	table := []wordRefusal{
		{"CL.LIMIT", []string{"", "", ""}, "near '': expected RATE, WINDOW or FIXED"},
		{"CL.LIMIT", []string{"RATE\x00", "5/s"}, "near 'RATE?': expected"},
		{"CL.LIMIT", []string{"\r\n+OK", "5/s"}, "near '??+OK': expected"},
		{"CL.LIMIT", []string{"%s%n", "5/s"}, "near '%s%n': expected"},
		{"CL.LIMIT", []string{"RATE", "\xff\xfe"}, "near '??': RATE takes count/period"},
		{"CL.LIMIT", []string{long, "5/s"}, "near '" + long[:40] + "...': expected"},
		{"CL.PEEK", []string{"RATE", long}, "near '" + long[:40] + "...': RATE takes"},
		{"CL.WAIT", []string{"RATE", "5/s", "COST", long}, "near '" + long[:40] + "...': COST takes"},
		{"CL.LEASES", []string{"ALL"}, "near 'ALL': expected COUNT"},
		{"CL.RELEASE", strings.Fields("ID" + strings.Repeat(" a", 1000)), "ID takes at most 94 ids at a time"},
	}
	for _, command := range strings.Fields("LIMIT PEEK REFUND WAIT LEASE RENEW") { // longer than any call that means something
		table = append(table, wordRefusal{"CL." + command, strings.Fields(strings.Repeat("RATE 5/s ", 50)), "too many arguments"})
	}
	return table
}

type wordRefusal struct {
	command string
	args    []string
	right   string
}

func TestBadWordsAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	w := kit.StartWatched(t)
	table := wordRefusals()
	for _, present := range []string{"", "CL.LIMIT key RATE 5/h", "CL.LIMIT key RATE 5/h WINDOW 7/d"} {
		if present != "" {
			kit.Ask(t, w.Conn, "%s", present)
		}
		before := w.Traces(t, "key")
		for _, r := range table {
			v := w.Call(t, append([]string{r.command, "key"}, r.args...)...)
			about := fmt.Sprintf("%s key %.100q", r.command, r.args)
			require.True(t, v.IsError(), "%s answers %v", about, v)
			require.True(t, strings.HasPrefix(v.Text, "ERR "), "%s answers %v", about, v)
			assert.Contains(t, v.Text, r.right, about)
			assert.LessOrEqual(t, len(v.Text), 255, "%s: an error is a sentence", about)
		}
		assert.Equal(t, before, w.Traces(t, "key"))
	}
	t.Logf("%d calls refused", 3*len(table))
}

// Random words of the command that blocks. Two options of the same name are refused, so
// that the TIMEOUT at the end is the only one, and no call takes longer than that.
func TestRandomWordsOfBlockingCallsGetWellFormedReplies(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	g := generator{chance.New(t)}
	c := s.Raw()
	var answered int
	for range 3000 {
		command := append(g.words("CL.WAIT"), "TIMEOUT", "2ms")
		v, err := c.Do(command...)
		require.NoError(t, err)
		require.NoError(t, checkAnswer(v), "%.500q answers %v", command, v)
		if !v.IsError() {
			answered++
		}
	}
	t.Logf("%d of 3000 were well-formed, of which %d waited", answered, s.InfoInt("throttle", "throttle_waited"))
	assert.Greater(t, answered, 100)
}
