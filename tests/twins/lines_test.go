package twins_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/tests/clock"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// lines are calls of all commands that do not wait. What is made of them by changing some words is wrong in every way.
var lines = strings.Split(`CL.THROTTLE k 15 30 60 1
CL.THROTTLE k 15 30 60
CL.LIMIT k RATE 5/s BURST 10 COST 2
CL.LIMIT k RATE 5/s SHADOW FIXED 100/d TZ Europe/Berlin OFFSET 6h COMPACT
CL.LIMIT k WINDOW 10/1h TAKE 3 SPARE 2 FIXED 3/mo FIRST COST 3 UPTO
CL.LIMIT k RATE 5/s COST 9 MAXWAIT 100ms
CL.LIMIT k FIXED 1/1m BAN 10s STRICT
CL.LIMIT k RATE 1/s FORCE COST 3
CL.MLIMIT 2 k l RATE 5/s NEXT WINDOW 10/1h COST 2
CL.MLIMIT 3 k l m RATE 5/s ANY COMPACT
CL.MLIMIT 2 k l RATE 5/s FIXED 9/h MAXWAIT 1s
CL.PEEK k RATE 5/s FIXED 100/d COST 2 COMPACT
CL.REFUND k RATE 5/s COST 2
CL.BAN k 10s
CL.BAN k 0
CL.LEASE jobs SLOTS 3 TTL 10s ID a COMPACT
CL.LEASE jobs SLOTS 3 TTL 1s ID b
CL.LEASE k SLOTS 1 TTL 500ms ID c
CL.LEASE jobs SLOTS 9 TTL 1s ID d GROUP a WEIGHT 3 PRIORITY -5
CL.WAIT l WINDOW 9999/1h GROUP a PRIORITY 100 COMPACT
CL.RENEW jobs ID a TTL 30s
CL.RELEASE jobs ID a b
CL.LEASES jobs COUNT 2
CL.LEASES l
CL.INSPECT k
CL.INSPECT l
CL.INSPECT jobs
CL.TOP 10
CL.TOP 2 SHADOW
CL.DENIED k 9
GET k
DEL k
DEL l
ZRANGE jobs 0 -1 WITHSCORES
PEXPIRETIME k
PEXPIRETIME jobs`, "\n")

var otherWords = strings.Fields(`k l jobs RATE WINDOW FIXED FIRST TZ OFFSET COST UPTO FORCE STRICT MAXWAIT BAN AFTER SHADOW TAKE SPARE BURST NEXT ANY COMPACT
	GROUP WEIGHT PRIORITY 100 101 1000 1001 -100 -101
	SLOTS TTL ID COUNT rate 5/s 5/S 5/0 0/s 1/7d 2/mo 3/y 9223372036854775807/s 9223372036854775808/h 1.5/s Europe/Berlin europe/berlin UTC Nowhere/At_All
	0 1 2 8 9 -1 1.5 9223372036854775807 9223372036854775808 0ms 1ms 500 10s 1mo 101y 36500d 36501d "" x`)

// A call with wrong words gets the same error without a server, and one that happens to be right the same answer.
func TestErrorsOfTheEmbeddedHostAreThoseOfAServer(t *testing.T) {
	t.Parallel()
	r := chance.New(t)
	at := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC).UnixNano()
	virtual := clock.New(t, at)
	s := virtual.Start(server.ModuleArgs("top", "3"))
	c := s.Raw()
	kit.Do(t, c, "DEBUG SET-ACTIVE-EXPIRE 0")
	w := twin{nowNs: at, isDev: s.Program.IsDev()}
	w.host.ResizeTop(3)
	for range size.Of(200, 2000) {
		var calls [][]string
		for range 50 {
			calls = append(calls, changed(r, strings.Fields(lines[r.IntN(len(lines))])))
		}
		replies, err := c.Pipeline(calls...)
		require.NoError(t, err)
		require.Empty(t, w.differences(calls, replies))
		w.nowNs += r.Int64N(int64(20*time.Second)) / 1000 * 1000
		virtual.Set(w.nowNs)
	}
	w.requireStats(t, s)
}

// changed is a call of ours some of whose words, but never the first, are others, left out or one more.
func changed(r *rand.Rand, words []string) []string {
	if !strings.HasPrefix(words[0], "CL.") {
		return words
	}
	for range max(0, r.IntN(5)-1) {
		i, word := 1+r.IntN(len(words)), otherWords[r.IntN(len(otherWords))]
		if word == `""` {
			word = ""
		}
		switch {
		case i == len(words) || r.IntN(3) == 0:
			words = slices.Insert(words, i, word)
		case r.IntN(3) == 0:
			words = slices.Delete(words, i, i+1)
		default:
			words[i] = word
		}
	}
	return words
}
