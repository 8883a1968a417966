package tests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/tests/server"
)

// wordRefusals are calls of the commands that speak in words, which are refused: the
// command, its arguments after the key, and what the error must say.
func wordRefusals() (table []wordRefusal) {
	add := func(command, args string, names ...string) {
		table = append(table, wordRefusal{command, strings.Fields(args), names})
	}
	family := []string{"CL.LIMIT", "CL.PEEK", "CL.REFUND", "CL.WAIT"}
	for _, command := range family {
		// CL.WAIT is refused as well when it has no TIMEOUT, except for the first word in the
		// wrong it says that one.
		rest := map[string]string{"CL.WAIT": " TIMEOUT 1s"}[command]
		const limits, more = "expected RATE, WINDOW or FIXED", ", RATE, WINDOW, FIXED"
		for _, args := range []string{"", "RATE", "WINDOW"} {
			add(command, args, "wrong number of arguments")
		}
		for _, first := range []string{"RATTE", "COST", "5/s", "UPTO", "RATES", "RAT", "TIMEOUT", "%s%n"} {
			add(command, first+" 5/s"+rest, "near '"+first+"': "+limits)
		}
		add(command, "RATE 5/s BURST 10 RATTE 5/s"+rest, "near 'RATTE': expected TAKE, ", more)
		add(command, "RATE 5/s BRUST 10"+rest, "near 'BRUST': expected BURST, TAKE, ", "RATE, ")
		add(command, "RATE 5/s BURST 10 BURST 10"+rest, "near 'BURST': given twice")
		add(command, "WINDOW 5/s BURST 10"+rest, "near 'BURST': must follow the count/period of a RATE")
		add(command, "FIXED 5/s BURST 10"+rest, "near 'BURST': must follow the count/period of a RATE")
		add(command, "RATE 5/s COST 1 BURST 10"+rest, "near 'BURST': must follow the count/period of a RATE")
		add(command, "RATE 5/s COST 1 COST 1"+rest, "near 'COST'", "given twice")
		add(command, "RATE 5/s"+rest+" COST", "near 'COST'", "COST takes")
		add(command, "RATE 5/s"+rest+" RATE", "near 'RATE'", "RATE takes")
		add(command, "RATE 5/s"+rest+" FIXED", "near 'FIXED'", "FIXED takes")
		add(command, "RATE 5/s"+rest+" RATE 5/s BURST", "near 'BURST'", "BURST takes")
		add(command, strings.Repeat("RATE 5/s ", 9)+rest, "near 'RATE'", "at most 8 limits")
		for _, kind := range []string{"RATE", "WINDOW", "FIXED"} {
			for _, quota := range []string{
				"5", "/", "5/", "/s", "5/s/s", "0/s", "-1/s", "+/s", "1.5/s", "1e3/s", "5/0", "5/0ms", "5/0.0", "5/-1", "5/-1.5s", "5/1.s", "5/.5", "5/1x",
				"05/s", "+5/s", "5/05", "5/+5", "-0/s", "5/S", "5/sec", "5/1h30m", "5/us", "x/s", "9223372036854775808/s", "5/9223372036854775808", "\x00/\x00", "\xff\xfe",
				strings.Repeat("9", 30) + "/s", "5/" + strings.Repeat("9", 30),
			} {
				add(command, kind+" "+quota+rest, "near '", kind+" takes count/period", "units are ms, s, m, h and d")
			}
			for _, quota := range []string{"5/0.0000000001", "5/1.0000001ms", "5/0.00000762939453125d", "5/1." + strings.Repeat("3", 40)} {
				add(command, kind+" "+quota+rest, "near '", "not a whole number of nanoseconds")
			}
			// Longer than 292 years, in one way or the other.
			add(command, kind+" 1/106752d"+rest, "near '1/106752d'", "292 years")
			add(command, kind+" 1/9223372036854775807d"+rest, "near '1/9223372036854775807d'", "292 years")
		}
		add(command, "RATE 1000000001/s"+rest, "near '1000000001/s'", "10^9 units per second")
		add(command, "RATE 1/d BURST 106752"+rest, "near '1/d'", "292 years")
		for _, bad := range []string{"0", "-1", "01", "+1", "-0", "x", "1.5", "9223372036854775808", "\x00", strings.Repeat("1", 40)} {
			add(command, "RATE 5/s BURST "+bad+rest, "near '", "BURST takes the capacity")
			if bad != "0" {
				add(command, "RATE 5/s COST "+bad+rest, "near '", "COST takes an integer")
			}
		}
		long := strings.Repeat("x", 1<<20)
		shown := "near '" + long[:40] + "...'"
		table = append(table,
			wordRefusal{command, strings.Fields(long + " 5/s" + rest), []string{shown}},
			wordRefusal{command, strings.Fields("RATE " + long + rest), []string{shown}},
			wordRefusal{command, strings.Fields("RATE 5/s BURST " + long + rest), []string{shown}},
			wordRefusal{command, strings.Fields("RATE 5/s COST " + long + rest), []string{shown}},
			wordRefusal{command, []string{"", "", "", "", ""}, []string{"near ''"}},
			wordRefusal{command, []string{"RATE\x00", "5/s", "TIMEOUT", "1s"}, []string{"near 'RATE?'"}},
			wordRefusal{command, []string{"\r\n+OK", "5/s", "TIMEOUT", "1s"}, []string{"near '??+OK'"}},
		)
	}
	for _, word := range []string{"UPTO", "STRICT", "FORCE", "MAXWAIT 1s", "TIMEOUT 1s"} {
		first := strings.Fields(word)[0]
		for _, command := range family {
			if word == "TIMEOUT 1s" && command == "CL.WAIT" || word != "TIMEOUT 1s" && command == "CL.LIMIT" {
				continue
			}
			rest := map[string]string{"CL.WAIT": " TIMEOUT 1s"}[command]
			add(command, "RATE 5/s "+word+rest, "near '"+first+"'", "expected BURST, TAKE, ", "RATE, ")
		}
		if word != "TIMEOUT 1s" {
			add("CL.LIMIT", "RATE 5/s "+word+" "+word, "near '"+first+"'", "given twice")
		}
	}
	for _, pair := range [][2]string{{"UPTO", "STRICT"}, {"UPTO", "FORCE"}, {"STRICT", "FORCE"}, {"FORCE", "MAXWAIT"}} {
		rest := map[string]string{"MAXWAIT": " 1s"}[pair[1]]
		add("CL.LIMIT", "RATE 5/s "+pair[0]+" "+pair[1]+rest, "near '"+pair[0]+"'", "cannot go with "+pair[1])
		add("CL.LIMIT", "RATE 5/s "+pair[1]+rest+" "+pair[0], "near '"+pair[0]+"'", "cannot go with "+pair[1])
	}
	add("CL.LIMIT", "RATE 5/s TAKE 1 UPTO", "near 'UPTO'", "cannot go with TAKE")
	for _, command := range []string{"CL.LIMIT", "CL.PEEK"} {
		for _, word := range []string{"TAKE", "SPARE"} {
			for _, bad := range []string{"-1", "01", "x", "1.5", "9223372036854775808", "\x00"} {
				add(command, "RATE 5/s "+word+" "+bad, "near '", word+" takes an integer")
			}
			add(command, "RATE 5/s COST 1 "+word+" 1", "near '"+word+"'", "must follow the limit")
			add(command, "RATE 5/s "+word+" 1 "+word+" 1", "near '"+word+"'", "given twice")
		}
		add(command, "RATE 5/s COST 1 SHADOW", "near 'SHADOW'", "must follow the limit")
	}
	add("CL.WAIT", "RATE 5/s SHADOW TIMEOUT 1s", "near 'SHADOW'", "expected BURST, TAKE, SPARE, RATE")
	add("CL.REFUND", "RATE 5/s SPARE 1", "near 'SPARE'", "expected BURST, TAKE, SHADOW, RATE")
	add("CL.LIMIT", "RATE 5/s UPTO MAXWAIT 1s", "near 'UPTO'", "cannot go with MAXWAIT")
	add("CL.LIMIT", "RATE 5/s MAXWAIT 1s STRICT", "near 'STRICT'", "cannot go with MAXWAIT")
	add("CL.LIMIT", "RATE 5/s WINDOW 5/s MAXWAIT 1s", "near 'MAXWAIT'", "RATE limits only")
	add("CL.WAIT", "RATE 5/s COST 1", "TIMEOUT is missing")
	for _, bad := range []string{"-1", "-1s", "-1.5", "1.", ".5", "05", "+5", "-0", "x", "1y", "36500.5d", "36501d", "9223372036854775807", "\x00"} {
		add("CL.LIMIT", "RATE 5/s MAXWAIT "+bad, "near '", "MAXWAIT takes a length of time")
		add("CL.WAIT", "RATE 5/s TIMEOUT "+bad, "near '", "TIMEOUT takes a length of time")
	}
	add("CL.LIMIT", "RATE 5/s MAXWAIT 0.0000000001", "near '0.0000000001'", "not a whole number of nanoseconds")
	add("CL.WAIT", "RATE 5/s TIMEOUT 0.0000000001", "near '0.0000000001'", "not a whole number of nanoseconds")
	// Longer than any call that means something.
	for _, command := range family {
		add(command, strings.Repeat("RATE 5/s BURST 5 TAKE 1 ", 8)+strings.Repeat("COST 1 ", 25), "too many arguments")
		add(command, strings.Repeat("1 ", 1000), "syntax error")
	}
	return table
}

type wordRefusal struct {
	command string
	args    []string
	names   []string
}

func TestBadWordsAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	w := startWatched(t)
	table := wordRefusals()
	for _, present := range []string{"", "CL.LIMIT key RATE 5/h", "CL.LIMIT key RATE 5/h WINDOW 7/d"} {
		if present != "" {
			ask(t, w.conn, "%s", present)
		}
		before := w.traces(t, "key")
		for _, r := range table {
			v := w.do(t, append([]string{r.command, "key"}, r.args...)...)
			about := fmt.Sprintf("%s key %.100q", r.command, r.args)
			require.True(t, v.IsError(), "%s answers %v", about, v)
			require.True(t, strings.HasPrefix(v.Text, "ERR "), "%s answers %v", about, v)
			for _, name := range r.names {
				assert.Contains(t, v.Text, name, about)
			}
			assert.LessOrEqual(t, len(v.Text), 255, "%s: an error is a sentence", about)
		}
		assert.Equal(t, before, w.traces(t, "key"))
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
		assert.EqualValues(t, 2, ask(t, c, "%s", command).Granted)
	}
	a, err := c.Do("GET", "a")
	require.NoError(t, err)
	assert.NotEmpty(t, a.Text)
}

// Whatever is not the state of a limiter stays as it is.
func TestForeignValuesAreRefusedByTheWholeFamily(t *testing.T) {
	t.Parallel()
	w := startWatched(t)
	w.do(t, "RPUSH", "list", "1")
	w.do(t, "HSET", "hash", "a", "1")
	w.do(t, "XADD", "stream", "*", "a", "1")
	keys := []string{"list", "hash", "stream"}
	for i, value := range []string{"", "bar", "-5", "1.5", "+5", strings.Repeat("9", 40), "\x00", "\xff\xff\xff", strings.Repeat("\x01", 9000)} {
		key := fmt.Sprint("string", i)
		w.do(t, "SET", key, value)
		keys = append(keys, key)
	}
	// States with a byte too many, one too few, and of a version that nobody writes.
	ask(t, w.conn, "CL.LIMIT state RATE 5/h WINDOW 7/d FIXED 9/d COST 2")
	state := w.do(t, "GET", "state").Text
	for i, value := range []string{state + "\x00", state[:len(state)-1], "\xee" + state[1:], state[:1], state + state} {
		key := fmt.Sprint("damaged", i)
		w.do(t, "SET", key, value)
		keys = append(keys, key)
	}
	for _, key := range keys {
		before := w.traces(t, key)
		for _, command := range []string{"CL.LIMIT %s RATE 5/h", "CL.PEEK %s RATE 5/h", "CL.REFUND %s RATE 5/h",
			"CL.WAIT %s RATE 5/h TIMEOUT 1s", "CL.LIMIT %s WINDOW 7/d RATE 5/h", "CL.THROTTLE %s 4 5 1h"} {
			v := do(t, w.conn, command, key)
			assert.True(t, v.IsError() && strings.HasPrefix(v.Text, "WRONGTYPE "), "%s at %q answers %v", command, key, v)
		}
		assert.Equal(t, before, w.traces(t, key), key)
	}
}

// Random words of the command that blocks. Two options of the same name are refused, so
// that the TIMEOUT at the end is the only one, and no call takes longer than that.
func TestRandomWordsOfBlockingCallsGetWellFormedReplies(t *testing.T) {
	t.Parallel()
	s := startCheckBuild(t)
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
