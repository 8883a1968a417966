package durability

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// limit is a rate limit: how to ask for it, and what it comes to.
type limit struct {
	args     string // max_burst count period
	capacity int64
	emission time.Duration // one unit comes back in this time
}

var (
	// Nothing comes back while a test runs: what is left is the capacity less what
	// was taken, and what is stored grows by an hour with each unit.
	hourly = limit{"99999 1 1h", 100_000, time.Hour}
	// Taken from far ahead of now, a unit moves what is stored by a millisecond, and
	// seldom the expiry, which is in whole seconds.
	fine = limit{"99999999 1000 1", 100_000_000, time.Millisecond}
	// Units come back all the time, and callers who hammer take each of them.
	rapid  = limit{"199 1000 1", 200, time.Millisecond}
	steady = limit{"99 200 1", 100, 5 * time.Millisecond}
)

// call is CL.THROTTLE as a client sends it.
func (l limit) call(key string, quantity int64) []string {
	return append(append([]string{"CL.THROTTLE", key}, strings.Fields(l.args)...), strconv.FormatInt(quantity, 10))
}

// answer is CL.THROTTLE's reply.
type answer struct {
	Allowed                                  bool
	Limit, Remaining, RetryAfter, ResetAfter int64 // the last two in seconds
}

// answerIn reads a reply, which has to make sense by itself.
func answerIn(v resp.Value) (answer, error) {
	n, err := v.Ints()
	if err != nil {
		return answer{}, err
	}
	if len(n) != 5 {
		return answer{}, fmt.Errorf("%d integers in %v, want 5", len(n), v)
	}
	a := answer{n[0] == 0, n[1], n[2], n[3], n[4]}
	ok := (n[0] == 0 || n[0] == 1) && a.Limit >= 1 && a.Remaining >= 0 && a.Remaining <= a.Limit && a.ResetAfter >= 0 &&
		(a.RetryAfter == -1 || !a.Allowed && a.RetryAfter > 0)
	if !ok {
		return answer{}, fmt.Errorf("%v makes no sense", v)
	}
	return a, nil
}

// allowedIn reads whether a call was allowed from the reply of any of the commands.
func allowedIn(v resp.Value) (bool, error) {
	if len(v.Elems) == 5 {
		a, err := answerIn(v)
		return a.Allowed, err
	}
	if v.Kind != resp.Array || len(v.Elems) < 18 || v.Elems[0].Text != "limited" || v.Elems[1].Int|1 != 1 {
		return false, fmt.Errorf("%v makes no sense", v)
	}
	return v.Elems[1].Int == 0, nil
}

// remaining peeks at a bucket.
func remaining(t testing.TB, s *server.Server, l limit, key string) int64 {
	t.Helper()
	a, err := answerIn(s.MustDo(l.call(key, 0)...))
	require.NoError(t, err)
	return a.Remaining
}

// tatIn is the theoretical arrival time in a stored value, in ns since the epoch.
func tatIn(t testing.TB, value string) int64 {
	t.Helper()
	tat, err := strconv.ParseInt(value, 10, 64)
	require.NoError(t, err)
	return tat
}

// expiryMs is when a key with this TAT has to expire: when its bucket is full,
// rounded up to a second.
func expiryMs(tat int64) int64 {
	const second = int64(time.Second)
	return (tat + second - 1) / second * 1000
}

// serverTime is the server's clock in ns since the epoch.
func serverTime(t testing.TB, s *server.Server) int64 {
	t.Helper()
	v := s.MustDo("TIME")
	require.Len(t, v.Elems, 2)
	seconds, err := strconv.ParseInt(v.Elems[0].Text, 10, 64)
	require.NoError(t, err)
	micros, err := strconv.ParseInt(v.Elems[1].Text, 10, 64)
	require.NoError(t, err)
	return seconds*int64(time.Second) + micros*int64(time.Microsecond)
}
