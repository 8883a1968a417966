package leases_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/charge"
	"redis-throttle/ratelimit/leases"
	"redis-throttle/ratelimit/policies"
)

// prompt is an admission of a request, its tokens and a slot.
func prompt(id string) ratelimit.Call {
	return ratelimit.Call{ID: id, Keys: []ratelimit.Key{
		{Name: "requests", Limits: ratelimit.Limits{ratelimit.Rate(60, time.Minute)}},
		{Name: "tokens", Limits: ratelimit.Limits{ratelimit.Rate(1000, time.Minute).Take(200).Spare(9), ratelimit.Fixed(5000, time.Hour)}},
		{Name: "running", Slots: 4, TTL: time.Minute},
	}}
}

func admitted() (ratelimit.Result, error) {
	return ratelimit.Result{Key: "tokens", KeyIndex: 1, Granted: 200, By: "server"}, nil
}

func settled() (ratelimit.Result, error) { return ratelimit.Result{By: "server"}, nil }

func lapsed() (ratelimit.Result, error) { return ratelimit.Result{Limited: true, By: "server"}, nil }

// used is what a settlement says of the limits of a key, as ParseLimits reads them.
func used(settle ratelimit.Call, key string) string {
	for _, k := range settle.Keys {
		if k.Name == key {
			return k.Limits.String()
		}
	}
	return "not named"
}

// What was used is charged in place of the estimate, once, however the work ends. What nothing was said of stays as it
// was.
func TestAnAdmissionSettlesItself(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for rule, c := range map[string]struct {
		work   func(*leases.Admission) error
		tokens string
		ends   error
		says   string
		panics any
	}{
		"by nothing":           {work: func(*leases.Admission) error { return nil }, tokens: "not named"},
		"by one number":        {work: func(a *leases.Admission) error { a.Used("tokens", 734); return nil }, tokens: "RATE 1000/1m TAKE 200 USED 734 SPARE 9; FIXED 5000/1h TAKE 1 USED 734"},
		"by one for each":      {work: func(a *leases.Admission) error { a.Used("tokens", 7, 8); return nil }, tokens: "RATE 1000/1m TAKE 200 USED 7 SPARE 9; FIXED 5000/1h TAKE 1 USED 8"},
		"by the last word":     {work: func(a *leases.Admission) error { a.Used("tokens", 7); a.Used("tokens", 0); return nil }, tokens: "RATE 1000/1m TAKE 200 USED 0 SPARE 9; FIXED 5000/1h TAKE 1 USED 0"},
		"after an error":       {work: func(a *leases.Admission) error { a.Used("tokens", 7); return broken }, tokens: "RATE 1000/1m TAKE 200 USED 7 SPARE 9; FIXED 5000/1h TAKE 1 USED 7", ends: broken},
		"after a panic":        {work: func(a *leases.Admission) error { a.Used("tokens", 7); panic("torn") }, tokens: "RATE 1000/1m TAKE 200 USED 7 SPARE 9; FIXED 5000/1h TAKE 1 USED 7", panics: "torn"},
		"by itself before":     {work: func(a *leases.Admission) error { return a.Settle(context.Background()) }, tokens: "not named"},
		"by a key it has not":  {work: func(a *leases.Admission) error { a.Used("running", 1); return nil }, tokens: "not named", says: "Used names a key that the admission has no limits of"},
		"by too many numbers":  {work: func(a *leases.Admission) error { a.Used("tokens", 1, 2, 3); return nil }, tokens: "not named", says: "one for each of its 2, not 3"},
		"by no number":         {work: func(a *leases.Admission) error { a.Used("tokens"); return nil }, tokens: "not named", says: "one for each of its 2, not 0"},
		"by a negative number": {work: func(a *leases.Admission) error { a.Used("tokens", -1); return nil }, tokens: "not named", says: "-1, are negative"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: map[ratelimit.Verb][]step{ratelimit.VerbLimit: {admitted}, ratelimit.VerbRenew: {settled},
				ratelimit.VerbSettle: {settled, lapsed}}}
			var err error
			run := func() {
				err = leases.DoAdmitted(t.Context(), s, prompt("a"), func(ctx context.Context, a *leases.Admission) error {
					assert.Equal(t, "a", a.ID())
					assert.Equal(t, "tokens", a.Result().Key)
					require.NoError(t, ctx.Err())
					time.Sleep(5 * time.Minute) // the slots are renewed
					require.NoError(t, ctx.Err())
					return c.work(a)
				})
			}
			if c.panics != nil {
				require.PanicsWithValue(t, c.panics, run, rule)
			} else {
				run()
			}
			switch {
			case c.says != "":
				require.ErrorContains(t, err, c.says, rule)
			case c.ends != nil:
				require.ErrorIs(t, err, c.ends, rule)
			default:
				require.NoError(t, err, rule)
			}
			assert.Equal(t, 3*time.Second, s.of(ratelimit.VerbLimit)[0].Keys[2].TTL, "until somebody knows of it")
			assert.Equal(t, time.Minute, s.of(ratelimit.VerbRenew)[0].Keys[0].TTL)
			settlements := s.of(ratelimit.VerbSettle)
			require.Len(t, settlements, 1, rule)
			assert.Equal(t, "a", settlements[0].ID)
			assert.Equal(t, c.tokens, used(settlements[0], "tokens"), rule)
			assert.Equal(t, "not named", used(settlements[0], "requests"), rule)
			assert.Empty(t, used(settlements[0], "running"), rule)
		})
	}
}

// A shadow that the call exceeded was not charged, so nothing of it comes back.
func TestAShadowThatWasNotChargedIsNotSettled(t *testing.T) {
	t.Parallel()
	for exceeded, want := range map[bool]string{true: "FIXED 9/1h TAKE 0 USED 0 SHADOW", false: "FIXED 9/1h TAKE 3 USED 5 SHADOW"} {
		synctest.Test(t, func(t *testing.T) {
			each := func() (ratelimit.Result, error) {
				return ratelimit.Result{By: "server", Shadowed: exceeded, Each: []ratelimit.Result{{Limited: exceeded}, {KeyIndex: 1}}}, nil
			}
			s := &script{answers: map[ratelimit.Verb][]step{ratelimit.VerbLimit: {each}, ratelimit.VerbRenew: {settled}, ratelimit.VerbSettle: {settled}}}
			a, err := leases.Admit(t.Context(), s, ratelimit.Call{Cost: 3, Keys: []ratelimit.Key{
				{Name: "tried", Limits: ratelimit.Limits{ratelimit.Fixed(9, time.Hour).Shadow()}}, {Name: "running", Slots: 1, TTL: time.Minute},
			}})
			require.NoError(t, err)
			assert.True(t, s.of(ratelimit.VerbLimit)[0].Each)
			assert.Empty(t, a.Result().Each, "nobody has asked for it")
			a.Used("tried", 5)
			require.NoError(t, a.Settle(t.Context()))
			assert.Equal(t, want, used(s.of(ratelimit.VerbSettle)[0], "tried"))
		})
	}
}

// An admission settles the limits that were charged, whatever the hash of a policy says by then.
func TestAnAdmissionSettlesTheLimitsThatWereCharged(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"RATE 9000/m":                  "RATE 9000/1m TAKE 200 USED 700",
		"RATE 9000/m FIXED 5/d SHADOW": "RATE 9000/1m TAKE 200 USED 700; FIXED 5/1d TAKE 0 USED 0 SHADOW",
		"NONE":                         "not named",
		"a value that cannot be read":  "RATE 1000/1m TAKE 200 USED 700",
		"RATE 9000/m NAME a RATE 8/s":  "RATE 9000/1m TAKE 200 USED 700 NAME a; RATE 8/1s TAKE 200 USED 700",
	} {
		synctest.Test(t, func(t *testing.T) {
			admit := func() (ratelimit.Result, error) {
				return ratelimit.Result{By: "server", Each: []ratelimit.Result{{}, {Rule: 1, Limited: strings.Contains(value, "SHADOW")}}}, nil
			}
			s := &script{answers: map[ratelimit.Verb][]step{ratelimit.VerbLimit: {admit}, ratelimit.VerbRenew: {settled}, ratelimit.VerbSettle: {settled}}}
			hash := map[string]string{"llm": value}
			layer := policies.New(s, nil, policies.Options{
				Logger: slog.New(slog.DiscardHandler), Read: func(context.Context) (map[string]string, error) { return maps.Clone(hash), nil },
			})
			a, err := leases.Admit(t.Context(), layer, ratelimit.Call{Keys: []ratelimit.Key{
				{Name: "tokens", Limits: ratelimit.Policy("llm", ratelimit.Rate(1000, time.Minute).Take(200))}, {Name: "running", Slots: 1, TTL: time.Minute},
			}})
			require.NoError(t, err)
			hash["llm"] = "WINDOW 7/m"
			require.NoError(t, layer.Reader().Read(t.Context()))
			a.Used("tokens", 700)
			require.NoError(t, a.Settle(t.Context()))
			assert.Equal(t, want, used(s.of(ratelimit.VerbSettle)[0], "tokens"), value)
		})
	}
}

// A slot that somebody else may have is an error at the end of the work, whatever the work returns. Without a slot
// nothing is done.
func TestWorkLearnsThatItsSlotIsLost(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for kind, do := range map[string]func(ctx context.Context, s *script, work func(context.Context) error) error{
		"lease": func(ctx context.Context, s *script, work func(context.Context) error) error {
			return leases.Do(ctx, s, leases.Options{Key: "k", Slots: 1, TTL: time.Minute}, work)
		},
		"admission": func(ctx context.Context, s *script, work func(context.Context) error) error {
			return leases.DoAdmitted(ctx, s, prompt(""), func(ctx context.Context, _ *leases.Admission) error { return work(ctx) })
		},
	} {
		for _, c := range []struct {
			renewal, end step
			cause        error // why the context of the work has ended
			lost         bool
		}{
			{settled, settled, nil, false},
			{lapsed, lapsed, leases.ErrLost, true},
			{lapsed, settled, leases.ErrLost, true},
			{settled, lapsed, nil, kind == "admission"}, // which tells when it is settled
		} {
			for _, result := range []error{nil, broken, leases.ErrLost} {
				synctest.Test(t, func(t *testing.T) {
					s := &script{answers: map[ratelimit.Verb][]step{
						ratelimit.VerbLease: {settled}, ratelimit.VerbLimit: {admitted}, ratelimit.VerbRenew: {c.renewal},
						ratelimit.VerbRelease: {c.end}, ratelimit.VerbSettle: {c.end},
					}}
					err := do(t.Context(), s, func(ctx context.Context) error {
						time.Sleep(2 * time.Minute)
						assert.Equal(t, c.cause, context.Cause(ctx), kind)
						return result
					})
					assert.Equal(t, c.lost || errors.Is(result, leases.ErrLost), errors.Is(err, leases.ErrLost), "%s: %v", kind, err)
					assert.Equal(t, errors.Is(result, broken), errors.Is(err, broken), kind)
					assert.Equal(t, c.lost || result != nil, err != nil, kind)
					assert.Len(t, append(s.of(ratelimit.VerbRelease), s.of(ratelimit.VerbSettle)...), 1, kind)
				})
			}
		}
		s := &script{answers: map[ratelimit.Verb][]step{ratelimit.VerbLease: {lapsed}, ratelimit.VerbLimit: {lapsed}}}
		require.ErrorIs(t, do(t.Context(), s, func(context.Context) error { return io.EOF }), ratelimit.ErrLimited, kind)
	}
}

// Nobody waits for a server that is away: the admission is settled when it is back.
func TestASettlementThatMeetsAnOutageIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: map[ratelimit.Verb][]step{ratelimit.VerbLimit: {admitted}, ratelimit.VerbRenew: {settled},
			ratelimit.VerbSettle: {lost, lost, settled}}}
		began := time.Now()
		require.NoError(t, leases.DoAdmitted(t.Context(), s, prompt("a"), func(_ context.Context, a *leases.Admission) error {
			a.Used("tokens", 7)
			return nil
		}))
		assert.Equal(t, began, time.Now())
		time.Sleep(time.Minute)
		synctest.Wait()
		settlements := s.of(ratelimit.VerbSettle)
		require.Len(t, settlements, 3)
		for _, settlement := range settlements {
			assert.Equal(t, settlements[0], settlement)
		}
	})
}

// What may have been taken, without that anybody knows, is given back: all of it.
func TestAnAdmissionWhoseReplyIsLostIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: map[ratelimit.Verb][]step{ratelimit.VerbLimit: {lost}, ratelimit.VerbSettle: {lapsed, lost, settled}}}
		_, err := leases.Admit(t.Context(), s, prompt("a"))
		require.ErrorIs(t, err, io.EOF)
		time.Sleep(time.Minute)
		synctest.Wait()
		settlements := s.of(ratelimit.VerbSettle)
		require.Len(t, settlements, 3, "until it is found, or was not found twice")
		for _, settlement := range settlements {
			assert.Equal(t, "RATE 60/1m TAKE 1 USED 0", used(settlement, "requests"))
			assert.Equal(t, "RATE 1000/1m TAKE 200 USED 0 SPARE 9; FIXED 5000/1h TAKE 1 USED 0", used(settlement, "tokens"))
		}
	})
}

// An admission that is taken again under its ID is not given back by what is left of the first try.
func TestAnAdmissionThatIsTakenAgainIsNotGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: map[ratelimit.Verb][]step{ratelimit.VerbLimit: {lost, admitted}, ratelimit.VerbRenew: {settled}, ratelimit.VerbSettle: {lost}}}
		_, err := leases.Admit(t.Context(), s, prompt("a"))
		require.ErrorIs(t, err, io.EOF)
		time.Sleep(time.Second)
		before := len(s.of(ratelimit.VerbSettle))
		require.Positive(t, before, "it is being given back")
		for range 2 {
			_, err = leases.Admit(t.Context(), s, prompt("a"))
			require.NoError(t, err)
		}
		time.Sleep(time.Minute)
		assert.Len(t, s.of(ratelimit.VerbSettle), before)
	})
}

// The policy of a guard lets calls through that no server knows of.
func TestAnAdmissionByAPolicyHasNothingToSettle(t *testing.T) {
	t.Parallel()
	s := &script{answers: map[ratelimit.Verb][]step{ratelimit.VerbLimit: {func() (ratelimit.Result, error) { return ratelimit.Result{By: "policy"}, nil }}}}
	require.NoError(t, leases.DoAdmitted(t.Context(), s, prompt("a"), func(_ context.Context, a *leases.Admission) error {
		a.Used("tokens", 7)
		return nil
	}))
	assert.Len(t, s.calls, 1)
}

// Who wrote the code counted its limits; an operator may have put another number of them in their place.
func TestAnAdmissionIsSettledByTheLimitsOfAPolicy(t *testing.T) {
	t.Parallel()
	for want, limits := range map[string]ratelimit.Limits{
		"not named":                 nil, // NONE: nothing was taken
		"RATE 9/1m TAKE 200 USED 8": {ratelimit.Rate(9, time.Minute).Take(200)},
		"RATE 9/1m TAKE 1 USED 8; RATE 8/1m TAKE 1 USED 8; RATE 7/1m TAKE 1 USED 8": {ratelimit.Rate(9, time.Minute), ratelimit.Rate(8, time.Minute), ratelimit.Rate(7, time.Minute)},
	} {
		applied := []ratelimit.Applied{{}, {Name: "tokens", Field: "tokens", Limits: limits}, {}}
		admit := func() (ratelimit.Result, error) { return ratelimit.Result{By: "server", Policies: applied}, nil }
		s := &script{answers: map[ratelimit.Verb][]step{ratelimit.VerbLimit: {admit}, ratelimit.VerbSettle: {settled}}}
		require.NoError(t, leases.DoAdmitted(t.Context(), s, prompt("a"), func(_ context.Context, a *leases.Admission) error {
			a.Used("tokens", 7, 8)
			return nil
		}), want)
		assert.Equal(t, want, used(s.of(ratelimit.VerbSettle)[0], "tokens"))
	}
}

func TestWhatIsNoAdmissionIsRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*ratelimit.Call){
		"an admission is a call with VerbLimit, not wait": func(c *ratelimit.Call) { c.Verb = ratelimit.VerbWait },
		"needs a key with Slots and a TTL":                func(c *ratelimit.Call) { c.Keys = c.Keys[:2] },
		"takes neither Any nor MaxWait nor charge.UpTo":   func(c *ratelimit.Call) { c.Charge = charge.UpTo },
		"neither Any nor MaxWait":                         func(c *ratelimit.Call) { c.Any = true },
		"nor MaxWait":                                     func(c *ratelimit.Call) { c.MaxWait = time.Second },
		"the TTL 1ns is shorter than a millisecond":       func(c *ratelimit.Call) { c.Keys[2].TTL = 1 },
	} {
		s, call := &script{}, prompt("a")
		change(&call)
		_, err := leases.Admit(t.Context(), s, call)
		require.ErrorContains(t, err, want)
		assert.Empty(t, s.calls, want)
	}
}
