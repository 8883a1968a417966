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

// Some refused calls: their arguments after the key, and how the error must begin and what it must name.
// limiter/command/words has all numbers that are none, and spec/throttle.txt every error.
var refusals = []refusal{
	{[]string{strings.Repeat("0", 1<<20), "30", "60", "1"}, "ERR", "max_burst"},
	{[]string{"15", "1\x00", "60", "1"}, "ERR", "count_per_period"},
	{[]string{"15", "30", "\xff\xfe", "1"}, "ERR", "period"},
	{[]string{"15", "30", "60", "%s%s%n"}, "ERR", "quantity"},
	{strings.Fields("9223372036854775806 9223372036854775807 60"), "ERR", "count_per_period"},
	{strings.Fields("9223372036854775806 1 9223372036854775807d"), "ERR", "292 years"},
	{nil, "ERR", "wrong number of arguments for"},
	{strings.Fields("15 30 60 1 1"), "ERR", "wrong number of arguments for"},
	{strings.Fields(strings.Repeat("1 ", 1000)), "ERR", "wrong number of arguments for"},
}

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
	w := kit.StartWatched(t, server.Config("loglevel debug")) // arguments are no formats of log lines
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
		require.NoError(t, checkForm(v), "%.500q answers %v", command, v)
		if !v.IsError() {
			answered++
		}
	}
	t.Logf("%d of 3000 were well-formed, of which %d waited", answered, s.InfoInt("throttle", "throttle_waited"))
	assert.Greater(t, answered, 100)
}
