// Whatever words a client sends to the commands about leases and whatever their set holds, there is one
// answer, never more leases than slots, what is written can be read again, and an error writes nothing.
package command

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/lease"
)

// fuzzedLeases are the commands that FuzzLeases runs.
var fuzzedLeases = []*Command{Lease, Renew, Release, Leases}

func FuzzLeases(f *testing.F) {
	for _, seed := range []struct {
		command *Command
		line    string
		ids     string
		atMs    float64 // from now; of the first; the others end a second later each
		now     int64
		ahead   uint8
	}{
		{Lease, "k SLOTS 2 TTL 30s ID x", "ab", 1, nowNs, 0},
		{Lease, "k SLOTS 2 TTL 30s ID a TIMEOUT 1s COMPACT", "ab", 1, nowNs, 0},
		{Lease, "k SLOTS 9223372036854775807 TTL 36500d ID x TIMEOUT 0", "abcdefghijklmnopqrstuvwx", -20_000, nowNs, 3},
		{Lease, "k ID id TTL 0.001 SLOTS 0", "", 0, nowNs, 0},
		{Lease, "k slots 1 ttl 1.5ms id x compact", "a", 0, nowNs, 0},
		{Lease, "k SLOTS -1 TTL 30s ID a", "", 0, nowNs, 0},
		{Lease, "k SLOTS 1 TTL 0.9ms ID a", "", 0, nowNs, 0},
		{Lease, "k SLOTS 1 TTL 1s ID ", "", 0, nowNs, 0},
		{Lease, "k SLOTS 1 TTL 1s ID a SLOTS 2", "", 0, nowNs, 0},
		{Lease, "k SLOTS 1 TTL 1s ID ID TIMEOUT", "", 0, nowNs, 0},
		{Lease, "k SLOTS 3 TTL 1s ID x", "abc", 17 - float64(nowMs), nowNs, 0},
		{Lease, "k SLOTS 3 TTL 1s ID x", "abc", math.Inf(1), nowNs, 0},
		{Lease, "k SLOTS 3 TTL 36500d ID x", "abc", 0.5, math.MaxInt64, 0},
		{Renew, "k ID a TTL 1m", "ab", 1, nowNs, 1},
		{Renew, "k ID a TTL 1m COMPACT", "ab", 0, nowNs, 0},
		{Renew, "k ID a TTL 1m SLOTS 2", "ab", 0, nowNs, 0},
		{Release, "k ID a b x a", "abc", 0, nowNs, 1},
		{Release, "k id b a", "ab", 0, nowNs, 0},
		{Release, "k a b", "ab", 0, nowNs, 0},
		{Leases, "k COUNT 3", "abcdef", -1000, nowNs, 7},
		{Leases, "k COUNT 0", "", 0, nowNs, 0},
		{Leases, "k ALL", "", 0, 0, 0},
	} {
		f.Add(uint8(slices.Index(fuzzedLeases, seed.command)), []byte(strings.ReplaceAll(seed.line, " ", separator)), []byte(seed.ids),
			float64(nowMs)+seed.atMs, seed.now, seed.ahead, true)
	}
	reused := Call{In: &In{}, First: &Key{}, Past: &Past{}}
	f.Fuzz(func(t *testing.T, command uint8, line, ids []byte, endMs float64, now int64, ahead uint8, mayBlock bool) {
		if now < 0 || math.IsNaN(endMs) {
			t.Skip("the server's clock is past 1970, and no score is NaN")
		}
		cmd := fuzzedLeases[int(command)%len(fuzzedLeases)]
		set := leaseSet{scores: map[string]float64{}}
		for i, id := range ids {
			set.scores[string(id)] = endMs + float64(1000*i)
		}
		words := bytes.Split(line, []byte(separator))
		c := &Call{In: &In{NowNs: now, MayBlock: mayBlock, ArgCount: len(words), Args: words[:min(len(words), MaxArgs)]}, First: &Key{}}
		c.First.Ahead, c.First.LineSlots = int64(ahead), NoSlots
		set.gather(c, cmd)
		c.Run(cmd)
		reused.NowNs, reused.MayBlock, reused.Args, reused.ArgCount = c.NowNs, c.MayBlock, c.Args, c.ArgCount
		reused.First.Ahead, reused.First.LineSlots = c.First.Ahead, NoSlots
		set.gather(&reused, cmd)
		reused.Run(cmd)
		requireSameLeases(t, c, &reused)
		switch c.Reply {
		case ReplyWrongArity:
			require.Equal(t, Keep, c.First.Effect)
		case ReplyError:
			require.LessOrEqual(t, len(c.Error), MaxErrorLen)
			require.True(t, bytes.HasPrefix(c.Error, []byte("ERR ")) || bytes.HasPrefix(c.Error, []byte("WRONGTYPE ")))
			require.Equal(t, Keep, c.First.Effect)
		case ReplyInTurn:
			require.True(t, cmd == Lease && mayBlock)
			require.Equal(t, Keep, c.First.Effect)
			require.True(t, c.LookNs > 0 && c.TimeoutMs >= 0)
		case ReplyLeases:
			require.Equal(t, Leases, cmd)
			require.Equal(t, Keep, c.First.Effect)
			require.Equal(t, []int64{set.held(now), int64(ahead)}, c.Integers[:2])
		default:
			requireLeases(t, c, cmd, set)
		}
	})
}

func (s leaseSet) held(nowNs int64) (held int64) {
	for _, score := range s.scores {
		if score > float64(nowNs/ms) {
			held++
		}
	}
	return held
}

func requireSameLeases(t require.TestingT, want, got *Call) {
	require.Equal(t, want.Reply, got.Reply)
	require.Equal(t, string(want.Error), string(got.Error))
	require.Equal(t, want.Integers, got.Integers)
	require.Equal(t, want.First.Effect, got.First.Effect)
	require.Equal(t, want.First.Members.Remove, got.First.Members.Remove)
	require.Equal(t, want.First.Members.RemoveLowest, got.First.Members.RemoveLowest)
	require.Equal(t, want.First.Members.Add, got.First.Members.Add)
	require.Equal(t, want.First.Members.AddScore, got.First.Members.AddScore)
}

// requireLeases fails unless a call did what it says to a set.
func requireLeases(t *testing.T, c *Call, cmd *Command, set leaseSet) {
	before := set.held(c.NowNs)
	after := leaseSet{scores: maps.Clone(set.scores)}
	after.apply(c, cmd)
	held := after.held(c.NowNs)
	if cmd == Release {
		require.Equal(t, ReplyInteger, c.Reply)
		require.Equal(t, before-held, c.Integers[0])
		require.Equal(t, c.Integers[0] > 0, c.First.Effect != Keep)
		return
	}
	require.True(t, c.Reply == ReplyFields || c.Reply == ReplyIntegers)
	require.Len(t, c.Integers, len(leaseFields))
	limited, slots, remaining, retry, leaseMs := c.Integers[0], c.Integers[1], c.Integers[2], c.Integers[3], c.Integers[4]
	require.True(t, retry >= 0 || retry == lease.Never)
	if limited == 1 {
		require.Equal(t, cmd == Renew || slots == 0, retry == lease.Never, "-1 where no wait helps")
		require.NotZero(t, retry, "a caller that obeys would spin")
		require.Equal(t, Keep, c.First.Effect)
		require.Zero(t, leaseMs)
		return
	}
	require.Equal(t, ChangeMembers, c.First.Effect)
	require.Positive(t, leaseMs)
	end, ok := lease.Instant(c.First.Members.AddScore, c.NowNs)
	require.True(t, ok, "what is written can be read: %v", c.First.Members.AddScore)
	require.Equal(t, float64(end), c.First.Members.AddScore)
	require.Equal(t, leaseMs, (end*ms-c.NowNs)/ms)
	require.LessOrEqual(t, held, before+1)
	if cmd == Lease && held > before {
		require.LessOrEqual(t, held+c.First.Ahead, slots, "one too many")
		require.Equal(t, slots-held-c.First.Ahead, remaining)
	}
}
