package topology

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Entry is what a server holds at one key.
type Entry struct {
	Value      string // of a sorted set, all of its members with their scores
	ExpireAtMs int64  // since the Unix epoch; -1 for never
}

// State is what a server holds, by key: strings and sorted sets.
type State map[string]Entry

// Read returns the state of a server, which nobody should be writing to.
func Read(t testing.TB, s *server.Server) State {
	t.Helper()
	c := s.Raw()
	defer c.Close()
	// Lets the replica of a cluster answer; an error everywhere else.
	_, err := c.Do("READONLY")
	require.NoError(t, err)
	names, err := c.Do("KEYS", "*")
	require.NoError(t, err)
	require.False(t, names.IsError(), "KEYS answers %v", names)
	state := State{}
	for _, name := range names.Elems {
		if entry, ok := readEntry(t, c, name.Text); ok {
			state[name.Text] = entry
		}
	}
	return state
}

// readEntry reads one key; ok is false for a key that has expired meanwhile.
func readEntry(t testing.TB, c *resp.Conn, key string) (entry Entry, ok bool) {
	t.Helper()
	replies, err := c.Pipeline([]string{"GET", key}, []string{"ZRANGE", key, "0", "-1", "WITHSCORES"}, []string{"PEXPIRETIME", key})
	require.NoError(t, err)
	value, members, expiry := replies[0], replies[1], replies[2]
	if value.IsNull || expiry.Int == -2 || len(members.Elems) == 0 && !members.IsError() {
		return Entry{}, false
	}
	require.Equal(t, resp.Integer, expiry.Kind, "PEXPIRETIME %q answers %v", key, expiry)
	if !members.IsError() {
		return Entry{members.String(), expiry.Int}, true
	}
	require.Equal(t, resp.BulkString, value.Kind, "GET %q answers %v", key, value)
	return Entry{value.Text, expiry.Int}, true
}

// Lasting leaves out the keys that expire up to an instant.
func (s State) Lasting(until time.Time) State {
	lasting := maps.Clone(s)
	maps.DeleteFunc(lasting, func(_ string, e Entry) bool {
		return e.ExpireAtMs >= 0 && e.ExpireAtMs <= until.UnixMilli()
	})
	return lasting
}

// RequireCopies compares servers, byte for byte, that nobody writes to and that have
// all been told everything. A key that expired while they were read counts for none
// of them. It returns what they agree on.
func RequireCopies(t testing.TB, original *server.Server, copies ...*server.Server) State {
	t.Helper()
	want := Read(t, original)
	states := make([]State, len(copies))
	for i, s := range copies {
		states[i] = Read(t, s)
	}
	now := time.Now()
	want = want.Lasting(now)
	for i, s := range copies {
		RequireEqual(t, want, states[i].Lasting(now), "the server on port %d", s.Port)
	}
	return want
}

// RequireEqual compares two states and names the first keys that differ, where a
// whole state would drown the reader.
func RequireEqual(t testing.TB, want, have State, what string, args ...any) {
	t.Helper()
	const shown = 5
	different := 0
	differ := func(key string) {
		if different++; different <= shown {
			w, inWant := want[key]
			h, inHave := have[key]
			t.Errorf("key %q: want %+v (present: %t), have %+v (present: %t)", key, w, inWant, h, inHave)
		}
	}
	for key, entry := range want {
		if have[key] != entry {
			differ(key)
		}
	}
	for key := range have {
		if _, ok := want[key]; !ok {
			differ(key)
		}
	}
	if different > 0 {
		require.Failf(t, "states differ", what+": %d of %d keys", append(args, different, len(want))...)
	}
}
