package tests

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	w := startWatched(t)
	for _, key := range oddKeys() {
		for _, present := range []bool{false, true} {
			if present {
				_, err := answerIn(w.do(t, append([]string{"CL.THROTTLE", key}, "15", "1", "1d")...))
				require.NoError(t, err)
			}
			before := w.traces(t, key)
			for _, r := range refusals {
				if len(key) > 1000 && len(r.args) > 3 && len(r.args[0]) > 1000 {
					continue // a megabyte each is enough
				}
				call := append([]string{"CL.THROTTLE", key}, r.args...)
				v := w.do(t, call...)
				about := fmt.Sprintf("CL.THROTTLE %.20q %.50q", key, r.args)
				require.True(t, v.IsError(), "%s answers %v", about, v)
				assert.True(t, strings.HasPrefix(v.Text, r.prefix+" "), "%s answers %v", about, v)
				assert.Contains(t, v.Text, r.names, about)
				assert.LessOrEqual(t, len(v.Text), 200, "%s: an error is a sentence", about)
			}
			// Together: one write among all those calls would show.
			assert.Equal(t, before, w.traces(t, key), "key %.20q", key)
		}
	}
	assert.True(t, w.do(t, "CL.THROTTLE").IsError(), "no key at all")
}

func TestKeysOfAnyBytesAndLengthAreLimited(t *testing.T) {
	t.Parallel()
	w := startWatched(t)
	for _, key := range oddKeys() {
		for _, remaining := range []int64{2, 1, 0, 0} {
			a, err := answerIn(w.do(t, "CL.THROTTLE", key, "2", "1", "1d"))
			require.NoError(t, err, "%.20q", key)
			assert.Equal(t, remaining, a.Remaining, "%.20q", key)
		}
	}
	assert.EqualValues(t, len(oddKeys()), w.do(t, "DBSIZE").Int)
}

// A key may hold whatever another client put there.
func TestKeysThatHoldNoTATAreRefusedAndStayAsTheyAre(t *testing.T) {
	t.Parallel()
	w := startWatched(t)
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
			require.False(t, w.do(t, command...).IsError(), what)
			before := w.traces(t, key)
			for _, quantity := range []string{"1", "0", "16", "17"} {
				v := w.do(t, "CL.THROTTLE", key, "15", "30", "60", quantity)
				assert.True(t, v.IsError() && strings.HasPrefix(v.Text, "WRONGTYPE "), "%s: %v", what, v)
			}
			assert.Equal(t, before, w.traces(t, key), what)
			w.do(t, "DEL", key)
		}
	}
}
