package commands_test

import (
	"fmt"
	"math/rand/v2"
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
func TestKeysThatHoldNoTATAreRefusedAndStayAsTheyAre(t *testing.T) {
	t.Parallel()
	w := kit.StartWatched(t)
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
	}
	for what, command := range fill {
		for _, key := range oddKeys() {
			command[1] = key
			require.False(t, w.Call(t, command...).IsError(), what)
			before := w.Traces(t, key)
			for _, quantity := range []string{"1", "0", "16", "17"} {
				v := w.Call(t, "CL.THROTTLE", key, "15", "30", "60", quantity)
				assert.True(t, v.IsError() && strings.HasPrefix(v.Text, "WRONGTYPE "), "%s: %v", what, v)
			}
			assert.Equal(t, before, w.Traces(t, key), what)
			w.Call(t, "DEL", key)
		}
	}
}

// wordRefusals are calls of the commands that speak in words, which are refused: the command, its arguments after
// the key, and what the error must say. There is one for each class of errors; package command has the tables of all.
func wordRefusals() []wordRefusal {
	long := strings.Repeat("x", 1<<20)
	table := []wordRefusal{
		// The command's own bytes come back on one line.
		{"CL.LIMIT", []string{"", "", ""}, "near '': expected RATE, WINDOW or FIXED"},
		{"CL.LIMIT", []string{"RATE\x00", "5/s"}, "near 'RATE?': expected"},
		{"CL.LIMIT", []string{"\r\n+OK", "5/s"}, "near '??+OK': expected"},
		{"CL.LIMIT", []string{"%s%n", "5/s"}, "near '%s%n': expected"},
		{"CL.LIMIT", []string{"RATE", "\xff\xfe"}, "near '??': RATE takes count/period"},
		{"CL.LIMIT", []string{long, "5/s"}, "near '" + long[:40] + "...': expected"},
		{"CL.PEEK", []string{"RATE", long}, "near '" + long[:40] + "...': RATE takes"},
		{"CL.WAIT", []string{"RATE", "5/s", "COST", long}, "near '" + long[:40] + "...': COST takes"},
		{"CL.LIMIT", []string{"RATE 5/s"}, "near 'RATE 5/s': contains a space; pass each word as an argument of its own"},
	}
	for _, row := range []struct{ commands, args, right string }{
		{"LIMIT PEEK REFUND WAIT", "", "there must be a limit after the key"},
		{"LIMIT PEEK REFUND WAIT", "RATTE 5/s", "near 'RATTE': expected RATE, WINDOW or FIXED"},
		{"LIMIT PEEK REFUND WAIT", "RATE", "near 'RATE': RATE takes count/period"},
		{"LIMIT PEEK REFUND WAIT", "FIXED 5/x", "near '5/x': FIXED takes count/period"},
		{"LIMIT PEEK REFUND WAIT", "WINDOW 5/0.0000000001", "near '5/0.0000000001': not a whole number of nanoseconds"},
		{"LIMIT", "RATE 9223372036854775808/h", "near '9223372036854775808/h': the count is larger than 9223372036854775807"},
		{"LIMIT", "RATE 5/0", "near '5/0': the period is zero"},
		{"LIMIT", "RATE 5/S", "near '5/S': units are written in lower case"},
		{"LIMIT", "WINDOW 1/9223372036854775808d", "near '1/9223372036854775808d': the period is longer than 292 years"},
		{"LIMIT", "RATE 1000000001/s", "near '1000000001/s': at most 10^9 units per second"},
		{"LIMIT", "RATE 1/d BURST 106752", "near '1/d': a full bucket would take more than 292 years"},
		{"LIMIT", "RATE 5/s BURST 0", "near '0': BURST takes the capacity"},
		{"LIMIT PEEK", "FIXED 5/d TZ Europe/Belrin", "near 'Europe/Belrin': no time zone has this name; did you mean Europe/Berlin?"},
		{"LIMIT PEEK REFUND", "RATE 5/s BRUST 10", "near 'BRUST': expected BURST, TAKE, "},
		{"REFUND", "RATE 5/s SPARE 1", "near 'SPARE': expected BURST, TAKE, SHADOW, RATE"},
		{"LIMIT WAIT", "WINDOW 5/s BURST 10", "near 'BURST': must follow the count/period of a RATE"},
		{"LIMIT PEEK REFUND WAIT", "RATE 5/s COST 1 TAKE 1", "near 'TAKE': must follow the limit"},
		{"LIMIT PEEK REFUND WAIT", "RATE 5/s COST -1", "near '-1': COST takes an integer"},
		{"LIMIT PEEK REFUND WAIT", "RATE 5/s COST 1 COST 1", "near 'COST': given twice"},
		{"LIMIT PEEK REFUND WAIT", strings.Repeat("RATE 5/s ", 9), "near 'RATE': at most 8 limits"},
		{"LIMIT", "RATE 5/s MAXWAIT 1s STRICT", "near 'STRICT': cannot go with MAXWAIT"},
		{"LIMIT", "WINDOW 5/s MAXWAIT 1s", "near 'MAXWAIT': works with RATE limits only"},
		{"LIMIT", "RATE 5/s MAXWAIT 36501d", "near '36501d': MAXWAIT takes a length of time"},
		{"WAIT", "RATE 5/s", "TIMEOUT is missing"},
		{"WAIT", "RATE 5/s SHADOW TIMEOUT 1s", "near 'SHADOW': expected BURST, TAKE, SPARE, RATE"},
		{"LEASE", "SLOTS 2 TTL 30s", "ID is missing"},
		{"RENEW", "ID a", "TTL is missing"},
		{"RELEASE", "other", "near 'other': expected ID"},
		{"LEASES", "ALL", "near 'ALL': expected COUNT"},
		// Longer than any call that means something.
		{"LIMIT PEEK REFUND WAIT LEASE RENEW", strings.Repeat("RATE 5/s ", 50), "too many arguments"},
		{"RELEASE", "ID" + strings.Repeat(" a", 1000), "ID takes at most 94 ids at a time"},
	} {
		for _, command := range strings.Fields(row.commands) {
			table = append(table, wordRefusal{"CL." + command, strings.Fields(row.args), row.right})
		}
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

func TestWordsMeanTheSameInAnyCase(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Raw()
	for _, command := range []string{
		"cl.limit c rate 5/h take 2 spare 1 window 9/h shadow cost 1 force",
		"cl.limit a rate 5/h burst 6 window 9/h fixed 9/365d cost 2 strict",
		"Cl.Limit b Rate 5/h Burst 6 Window 9/h Fixed 9/365d Strict Cost 2",
	} {
		assert.EqualValues(t, 2, kit.Ask(t, c, "%s", command).Granted)
	}
	a, err := c.Do("GET", "a")
	require.NoError(t, err)
	assert.NotEmpty(t, a.Text)
}

// Whatever is not the state of a limiter stays as it is.
func TestForeignValuesAreRefusedByTheWholeFamily(t *testing.T) {
	t.Parallel()
	w := kit.StartWatched(t)
	w.Call(t, "RPUSH", "list", "1")
	w.Call(t, "HSET", "hash", "a", "1")
	w.Call(t, "XADD", "stream", "*", "a", "1")
	keys := []string{"list", "hash", "stream"}
	for i, value := range []string{"", "bar", "-5", "1.5", "+5", strings.Repeat("9", 40), "\x00", "\xff\xff\xff", strings.Repeat("\x01", 9000)} {
		key := fmt.Sprint("string", i)
		w.Call(t, "SET", key, value)
		keys = append(keys, key)
	}
	// States with a byte too many, one too few, and of a version that nobody writes.
	kit.Ask(t, w.Conn, "CL.LIMIT state RATE 5/h WINDOW 7/d FIXED 9/d COST 2")
	state := w.Call(t, "GET", "state").Text
	for i, value := range []string{state + "\x00", state[:len(state)-1], "\xee" + state[1:], state[:1], state + state} {
		key := fmt.Sprint("damaged", i)
		w.Call(t, "SET", key, value)
		keys = append(keys, key)
	}
	for _, key := range keys {
		before := w.Traces(t, key)
		for _, command := range []string{"CL.LIMIT %s RATE 5/h", "CL.PEEK %s RATE 5/h", "CL.REFUND %s RATE 5/h",
			"CL.WAIT %s RATE 5/h TIMEOUT 1s", "CL.LIMIT %s WINDOW 7/d RATE 5/h", "CL.THROTTLE %s 4 5 1h"} {
			v := kit.Do(t, w.Conn, command, key)
			assert.True(t, v.IsError() && strings.HasPrefix(v.Text, "WRONGTYPE "), "%s at %q answers %v", command, key, v)
		}
		assert.Equal(t, before, w.Traces(t, key), key)
	}
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
