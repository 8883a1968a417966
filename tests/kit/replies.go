package kit

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
)

// TextsOf is the texts of an array.
func TextsOf(v resp.Value) (texts []string) {
	for _, e := range v.Elems {
		texts = append(texts, fmt.Sprint(e.Text))
	}
	return texts
}

// Pairs reads a map, or its RESP2 form.
func Pairs(v resp.Value) map[string]resp.Value {
	fields := map[string]resp.Value{}
	for i := 0; i+1 < len(v.Elems); i += 2 {
		fields[v.Elems[i].Text] = v.Elems[i+1]
	}
	return fields
}

// Standing is the reply of CL.LIMIT, CL.PEEK, CL.REFUND and CL.WAIT.
type Standing struct {
	Limited      int64 // 0 allowed, 1 limited
	Rule         int64 // 1-based: the limit that decided
	Limit        int64
	Remaining    int64
	RetryAfterMs int64 // -1 for allowed and for never
	ResetAfterMs int64
	NextAfterMs  int64
	Granted      int64 // units charged
	WaitMs       int64
	Shadow       int64 // 1-based: the first shadow limit that would have limited
}

// StandingNames are the names of the fields of a Standing, in the order of the reply.
var StandingNames = []string{"limited", "rule", "limit", "remaining", "retry_after_ms", "reset_after_ms",
	"next_after_ms", "granted", "wait_ms", "shadow"}

// StandingIn reads a reply: ten pairs, a map in RESP3 and flat in RESP2, always in
// the same order.
func StandingIn(v resp.Value) (Standing, error) {
	if (v.Kind != resp.Map && v.Kind != resp.Array) || len(v.Elems) != 2*len(StandingNames) {
		return Standing{}, fmt.Errorf("%v is no reply of ten pairs", v)
	}
	n := make([]int64, len(StandingNames))
	for i, name := range StandingNames {
		key, value := v.Elems[2*i], v.Elems[2*i+1]
		if key.Kind != resp.BulkString || key.Text != name || value.Kind != resp.Integer {
			return Standing{}, fmt.Errorf("pair %d of %v is not %s and an integer", i, v, name)
		}
		n[i] = value.Int
	}
	return Standing{n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9]}, nil
}

// Ask sends a command given as one types it, and reads its fields.
func Ask(t Tester, c *resp.Conn, command string, args ...any) Standing {
	t.Helper()
	v := Do(t, c, command, args...)
	a, err := StandingIn(v)
	require.NoError(t, err, command)
	return a
}

// Answer is CL.THROTTLE's reply, with names.
type Answer struct {
	Limited    int64 // 0 allowed, 1 limited
	Limit      int64
	Remaining  int64
	RetryAfter int64 // seconds, -1 for allowed and for never
	ResetAfter int64 // seconds
}

// NewAnswer is an Answer by the order of its fields.
func NewAnswer(limited, limit, remaining, retryAfter, resetAfter int64) Answer {
	return Answer{limited, limit, remaining, retryAfter, resetAfter}
}

// AnswerOf reads the five integers of CL.THROTTLE.
func AnswerOf(integers []int64) (Answer, error) {
	if len(integers) != 5 {
		return Answer{}, fmt.Errorf("%d integers in %v, want 5", len(integers), integers)
	}
	return Answer{integers[0], integers[1], integers[2], integers[3], integers[4]}, nil
}

// AnswerIn is the answer in a reply read on a raw connection.
func AnswerIn(v resp.Value) (Answer, error) {
	integers, err := v.Ints()
	if err != nil {
		return Answer{}, err
	}
	return AnswerOf(integers)
}

// FirstOf16 is the answer to the first call of "15 30 60".
var FirstOf16 = Answer{Limited: 0, Limit: 16, Remaining: 15, RetryAfter: -1, ResetAfter: 2}

// Leased is an answer of CL.LEASE or CL.RENEW.
type Leased struct{ Limited, Limit, Remaining, RetryAfterMs, LeaseMs, WaitMs int64 }

// NewLeased is a Leased by the order of its fields.
func NewLeased(limited, limit, remaining, retryAfterMs, leaseMs, waitMs int64) Leased {
	return Leased{limited, limit, remaining, retryAfterMs, leaseMs, waitMs}
}

var leaseNames = []string{"limited", "limit", "remaining", "retry_after_ms", "lease_ms", "wait_ms"}

// LeasedIn reads a reply of CL.LEASE or CL.RENEW.
func LeasedIn(v resp.Value) (l Leased, err error) {
	if v.IsError() {
		return l, fmt.Errorf("%s", v.Text)
	}
	if len(v.Elems) != 2*len(leaseNames) {
		return l, fmt.Errorf("%d elements in %v", len(v.Elems), v)
	}
	for i, to := range []*int64{&l.Limited, &l.Limit, &l.Remaining, &l.RetryAfterMs, &l.LeaseMs, &l.WaitMs} {
		if v.Elems[2*i].Text != leaseNames[i] {
			return l, fmt.Errorf("%v is not %s", v.Elems[2*i], leaseNames[i])
		}
		*to = v.Elems[2*i+1].Int
	}
	return l, nil
}

// AskLease is the answer of CL.LEASE or CL.RENEW.
func AskLease(t Tester, c *resp.Conn, command string, args ...any) Leased {
	t.Helper()
	l, err := LeasedIn(Do(t, c, command, args...))
	require.NoError(t, err, command)
	return l
}

// IsLetThrough says whether the first integer of a reply is 0.
func IsLetThrough(v resp.Value) bool {
	for _, elem := range v.Elems {
		if elem.Kind == resp.Integer {
			return elem.Int == 0
		}
	}
	return false
}
