package commands_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// The server may keep one object for many keys, as it does for small numbers.
func TestOtherKeysWithTheSameValueKeepIt(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	past := "1700000000000000000"
	for _, value := range []string{"5", "9999", past} {
		s.MustDo("MSET", "key", value, "same", value)
		s.MustDo("COPY", "key", "copy", "REPLACE")
		p := kit.Probes(t, s.Raw(), 1, "key", "15 30 60 1")[0]
		assert.Equal(t, kit.NewAnswer(0, 16, 15, -1, 2), p.Answer, "a TAT in the past is a full bucket")
		kit.LimitOf(15, 30, time.Minute).Judge(t, p, 1)
		assert.Equal(t, value, s.MustDo("GET", "same").Text)
		assert.Equal(t, value, s.MustDo("GET", "copy").Text)
		s.MustDo("SET", "new", value)
		assert.Equal(t, value, s.MustDo("GET", "new").Text)
	}
}

// Of every kind of call: those that change the state of a key, delete it, or change who holds a lease.
func TestWatchFailsOnEveryCallThatChangesItsKey(t *testing.T) {
	t.Parallel()
	s := startMany(t)
	watcher, caller := s.Raw(), s.Raw()
	const (
		lease    = "CL.LEASE key SLOTS 1 TTL 1h ID a"
		both     = "CL.MLIMIT 2 full key FIXED 1/365d NEXT FIXED 9/365d"
		admits   = "CL.MLIMIT 2 tok key FIXED 9/365d NEXT SLOTS 2 TTL 1h ID "
		admitsTo = "CL.MLIMIT 2 key run FIXED 9/365d NEXT SLOTS 2 TTL 1h ID "
		settles  = "CL.SETTLE 2 key run FIXED 9/365d TAKE 1 USED "
	)
	for _, tc := range []struct {
		before, call string
		touched      bool
	}{
		{"", "CL.THROTTLE key 1 1 1d", true},
		{"", "CL.THROTTLE key 1 1 1d 0", false},
		{"CL.THROTTLE key 0 1 1d", "CL.THROTTLE key 0 1 1d", false},
		{"", "CL.LIMIT key RATE 2/1h", true},
		{"", "CL.PEEK key RATE 2/1h", false},
		{"CL.LIMIT key FIXED 9/365d COST 2", "CL.REFUND key FIXED 9/365d", true},
		{"CL.LIMIT key RATE 2/1h", "CL.REFUND key RATE 2/1h", true}, // deletes the key
		{"", "CL.REFUND key RATE 2/1h", false},
		{"", "CL.BAN key 1h", true},
		{"CL.LIMIT key RATE 2/1h", "CL.BAN key 1h", true},
		{"CL.BAN key 1h", "CL.BAN key 0", true}, // deletes the key
		{"", "CL.BAN key 0", false},
		{"", lease, true},
		{lease, "CL.LEASE key SLOTS 1 TTL 1h ID b", false},
		{lease, lease, true},
		{lease, "CL.RENEW key ID a TTL 2h", true},
		{lease, "CL.RENEW key ID b TTL 2h", false},
		{lease, "CL.RELEASE key ID a", true}, // deletes the key
		{lease, "CL.RELEASE key ID b", false},
		{lease, "CL.LEASES key", false},
		{both, both, false},
		{both, both + " ANY", true},
		{both, "CL.MLIMIT 2 third key FIXED 99/365d TAKE 1 FIXED 9/365d", true},
		{both, "CL.MLIMIT 2 third key FIXED 99/365d NEXT FIXED 9/365d TAKE 0", false},
		{"", admits + "a", true},
		{admits + "a", admits + "a", true}, // renews the lease
		{admits + "a", admits + "b COST 99", false},
		{admitsTo + "a", admitsTo + "a", false}, // charges nothing again
		{admitsTo + "a", admitsTo + "b COST 99", false},
		{admitsTo + "a", settles + "0 NEXT SLOTS ID a", true},
		{admitsTo + "a", settles + "1 NEXT SLOTS ID a", false},
		{admitsTo + "a", settles + "0 NEXT SLOTS ID b", false},
	} {
		kit.Do(t, caller, "FLUSHALL")
		if tc.before != "" {
			require.False(t, kit.Do(t, caller, "%s", tc.before).IsError(), tc.before)
		}
		kit.Do(t, watcher, "WATCH key")
		require.False(t, kit.Do(t, caller, "%s", tc.call).IsError(), tc.call)
		kit.Do(t, watcher, "MULTI")
		kit.Do(t, watcher, "PING")
		assert.Equal(t, tc.touched, kit.Do(t, watcher, "EXEC").IsNull, "%s after %q", tc.call, tc.before)
	}
}
