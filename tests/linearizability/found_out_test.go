package linearizability

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// requireNotLinearizable wants the checker to find out, within some attempts: a fault may show in no reply.
func requireNotLinearizable(t *testing.T, run func(s *scene) *history) {
	t.Parallel()
	for range 5 {
		found := false
		t.Run("", func(t *testing.T) {
			s := newScene(t)
			failed, undecided := run(s).check()
			t.Log("undecided: ", undecided)
			found = len(failed) > 0
		})
		if found {
			return
		}
	}
	t.Error("a history that cannot be is taken for one that can")
}

// Takeovers that lose writes where nobody is told of a takeover, and also what the replica is known to have had.
func TestTakeoversThatForgetMoreAreFoundOut(t *testing.T) {
	server.NeedsServer(t, "replication")
	t.Run("nobody is told", func(t *testing.T) {
		requireNotLinearizable(t, func(s *scene) *history { return s.takeOver(false, false) })
	})
	t.Run("everything", func(t *testing.T) {
		requireNotLinearizable(t, func(s *scene) *history { return s.takeOver(true, true) })
	})
}

// sender sends a call as it is, and sending in the way of a server that is not as it says.
type (
	sender  func(words ...string) (resp.Value, error)
	sending func(do sender, words []string) (resp.Value, error)
)

func TestAServerThatIsNotAsItSaysIsFoundOut(t *testing.T) {
	var sent atomic.Int64
	for name, test := range map[string]struct {
		clients, calls int // 0 for as many as otherwise
		send           sending
	}{
		"it admits one unit more": {send: func(do sender, words []string) (resp.Value, error) {
			if slices.Contains([]string{"CL.LEASES", "CL.MLIMIT", "CL.SETTLE"}, words[0]) { // other replies
				return do(words...)
			}
			v, err := do(oneMore(words, "WINDOW", "FIXED")...)
			if len(v.Elems) == 10 && words[2] != "RATE" {
				oneLess(v, 2, 3)
			}
			return v, err
		}},
		"a ban begins one denial later": {send: func(do sender, words []string) (resp.Value, error) {
			return do(oneMore(words, "AFTER")...)
		}},
		"a call happens twice, as with a client that sends it again": {1, 300, func(do sender, words []string) (resp.Value, error) {
			if sent.Add(1)%20 == 0 && words[0] != "CL.WAIT" {
				if _, err := do(words...); err != nil {
					return resp.Value{}, err
				}
			}
			return do(words...)
		}},
		"a call on several keys charges all of them but the last": {send: func(do sender, words []string) (resp.Value, error) {
			if isOfSeveral(words) && sent.Add(1)%10 == 0 {
				words = slices.Clone(words)
				keys, _ := strconv.Atoi(words[1])
				words[1+keys] += ":elsewhere"
			}
			return do(words...)
		}},
		"one lease more than there are slots": {send: func(do sender, words []string) (resp.Value, error) {
			if words[0] != "CL.LEASE" {
				return do(words...)
			}
			v, err := do(oneMore(words, "SLOTS")...)
			if len(v.Elems) == 6 {
				oneLess(v, 1, 2)
			}
			return v, err
		}},
		"callers come in order of arrival, whatever group and priority they name": {send: func(do sender, words []string) (resp.Value, error) {
			if i := slices.IndexFunc(words, func(w string) bool { return w == "GROUP" || w == "PRIORITY" }); i >= 0 && words[0] == "CL.LEASE" {
				words = words[:i]
			}
			return do(words...)
		}},
		"a lease that has lapsed is renewed": {send: func(do sender, words []string) (resp.Value, error) {
			v, err := do(words...)
			if words[0] != "CL.RENEW" || len(v.Elems) != 6 || v.Elems[0].Int == 0 {
				return v, err
			}
			v, err = do("CL.LEASE", words[1], "SLOTS", "1000", "ID", words[3], "TTL", words[5], "COMPACT")
			if len(v.Elems) == 6 {
				v.Elems[1].Int, v.Elems[2].Int = -1, -1
			}
			return v, err
		}},
		// Half of what an admission or a settlement changes, or twice.
		"an admission has no lease":  {send: after(isAdmission, 0, release)},
		"an admission charges twice": {send: after(isAdmission, 0, release, again)},
		"a settlement ends no lease": {send: after(isSettlement, 1, lease)},
		"a settlement charges twice": {send: after(isSettlement, 1, lease, again)},
	} {
		t.Run(name, func(t *testing.T) {
			requireNotLinearizable(t, func(s *scene) *history {
				if test.clients > 0 {
					s.load.clients, s.load.calls = test.clients, test.calls
				}
				s.load.send = func(c *resp.Conn, words []string) (resp.Value, error) { return test.send(c.Do, words) }
				return s.run(s.clock.Start(), nothing)
			})
		})
	}
}

// oneMore is a call in which the count behind each of some words is one more.
func oneMore(words []string, behind ...string) []string {
	words = slices.Clone(words)
	for i := 1; i < len(words); i++ {
		if slices.Contains(behind, words[i-1]) {
			count, _, _ := strings.Cut(words[i], "/")
			n, _ := strconv.Atoi(count)
			words[i] = strconv.Itoa(n+1) + strings.TrimPrefix(words[i], count)
		}
	}
	return words
}

// oneLess has some integers of a reply be one less.
func oneLess(v resp.Value, fields ...int) {
	for _, i := range fields {
		v.Elems[i].Int = max(0, v.Elems[i].Int-1)
	}
}

// isAdmission says whether a call takes slots together with units.
func isAdmission(words []string) bool {
	return words[0] == "CL.MLIMIT" && slices.Contains(words, "SLOTS")
}

func isSettlement(words []string) bool { return words[0] == "CL.SETTLE" }

// after has other calls follow certain calls whose reply begins with an integer.
func after(of func(words []string) bool, means int64, then ...func(words []string, slots, id string) []string) sending {
	return func(do sender, words []string) (resp.Value, error) {
		v, err := do(words...)
		if err != nil || !of(words) || len(v.Elems) == 0 || v.Elems[0].Int != means {
			return v, err
		}
		keys, _ := strconv.Atoi(words[1])
		for _, call := range then {
			if _, err := do(call(words, words[1+keys], words[slices.Index(words, "ID")+1])...); err != nil {
				return v, err
			}
		}
		return v, nil
	}
}

func release(_ []string, slots, id string) []string { return []string{"CL.RELEASE", slots, "ID", id} }

func lease(_ []string, slots, id string) []string {
	return []string{"CL.LEASE", slots, "SLOTS", "1000", "TTL", "20ms", "ID", id}
}

func again(words []string, _, _ string) []string { return words }
