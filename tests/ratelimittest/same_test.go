// Package ratelimittest_test compares package ratelimittest with real servers, and puts the layers of the client on it.
package ratelimittest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/charge"
	"redis-throttle/ratelimit/commands"
	"redis-throttle/ratelimit/leases"
	"redis-throttle/ratelimit/ratelimittest"
	"redis-throttle/tests/clock"
	"redis-throttle/tests/server"
)

func TestMain(m *testing.M) {
	logging.Disable()
	os.Exit(m.Run())
}

const day = 24 * time.Hour

var hourly = ratelimit.Limits{ratelimit.Rate(1, time.Hour)}

// The same random calls at the same instants have the same results and errors on a server and on ratelimittest.
func TestResultsAreThoseOfAServer(t *testing.T) {
	server.NeedsServer(t, "keys that stay expired when its clock is set back")
	t.Parallel()
	calls := chance.Calls(t, "RATELIMITTEST_CALLS", size.Of(3_000, 30_000))
	r := newSame(t)
	for r.made = 0; r.made < calls || r.made < 10*calls && r.tooSeldom(calls) != ""; r.made++ {
		if r.IntN(4) == 0 {
			r.step()
		}
		if r.IntN(200) == 0 {
			r.wait()
		}
		r.decide(r.call())
		if r.IntN(10) == 0 {
			r.list()
		}
	}
	t.Logf("%d calls: %v let through, %v limited, %v errors; %d waited, %d of them left", r.made, r.passed, r.limited, r.errors, r.waited, r.left)
	require.Empty(t, r.tooSeldom(calls), "came up too seldom")
}

// tooSeldom says what has not come up as often as a run of so many calls has to see it, or nothing.
func (r *same) tooSeldom(calls int) string {
	for verb := ratelimit.VerbLimit; verb <= ratelimit.VerbThrottle; verb++ {
		neverLimited := verb == ratelimit.VerbRefund || verb == ratelimit.VerbBan || verb == ratelimit.VerbRelease || verb == ratelimit.VerbReset
		switch {
		case verb == ratelimit.VerbWait: // see wait
		case r.passed[verb] < calls/200:
			return fmt.Sprint(verb, " let through")
		case r.errors[verb] < calls/500 && verb != ratelimit.VerbReset: // which deletes keys of any type
			return fmt.Sprint("an error of ", verb)
		case r.limited[verb] < calls/200 && !neverLimited:
			return fmt.Sprint(verb, " limited")
		}
	}
	if min(r.waited-r.left, r.left) == 0 {
		return "a caller that waits or leaves"
	}
	return ""
}

// same is a server under a clock that the test sets, and ratelimittest under the same.
type same struct {
	*rand.Rand
	t      *testing.T
	clock  *clock.Clock
	server *server.Server
	client *redis.Client
	real   *ratelimit.Limiter
	fake   *ratelimittest.Limiter
	now    time.Time

	made, waited, left      int
	admitted                []ratelimit.Call // not settled yet
	passed, limited, errors map[ratelimit.Verb]int
}

func newSame(t *testing.T) *same {
	t.Helper()
	r := &same{Rand: chance.New(t), t: t, now: time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC),
		passed: map[ratelimit.Verb]int{}, limited: map[ratelimit.Verb]int{}, errors: map[ratelimit.Verb]int{}}
	r.clock = clock.New(t, r.now.UnixNano())
	r.server = r.clock.Start()
	r.client = r.server.Client()
	// A key whose time is over goes when it is next looked at, and no earlier: the clock may be set back in between.
	r.server.MustDo("DEBUG", "SET-ACTIVE-EXPIRE", "0")
	r.real = ratelimit.New(r.client, ratelimit.Options{})
	r.fake = ratelimittest.New(t)
	r.fake.SetTime(r.now)
	return r
}

func (r *same) set(now time.Time) {
	r.now = now
	r.clock.Set(now.UnixNano())
	r.fake.SetTime(now)
}

// step sets the clocks, mostly forward.
func (r *same) step() {
	steps := []time.Duration{time.Microsecond, time.Millisecond, 10 * time.Millisecond, time.Second, 7 * time.Second, time.Minute, time.Hour, day,
		30 * day, -time.Second, -time.Minute}
	r.set(r.now.Add(steps[r.IntN(len(steps))] * time.Duration(1+r.IntN(5))))
	if r.now.Year() > 2100 {
		r.set(r.now.AddDate(-70, 0, 0))
	}
}

// often picks the first of some values nine times out of ten.
func often[T any](r *same, usual T, others ...T) T {
	if r.IntN(10) > 0 {
		return usual
	}
	return others[r.IntN(len(others))]
}

func (r *same) limit() ratelimit.Limit {
	count := int64(1 + r.IntN(6))
	period := []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour, 2 * day}[r.IntN(5)]
	l := []ratelimit.Limit{
		ratelimit.Rate(count, period),
		ratelimit.Rate(count, period).Burst(1 + r.Int64N(9)),
		ratelimit.Window(count, period),
		ratelimit.Fixed(count, period),
		ratelimit.Fixed(count, period).First(),
		ratelimit.FixedMonths(count, 1).Zone("Europe/Berlin"),
		ratelimit.FixedWeeks(count, 2).Zone("America/New_York").Offset(6 * time.Hour),
		ratelimit.FixedYears(count, 1),
	}[r.IntN(8)]
	switch r.IntN(20) {
	case 0, 1:
		l = l.Take(r.Int64N(4))
	case 2, 3:
		l = l.Spare(r.Int64N(4))
	case 4, 5:
		l = l.Shadow()
	case 6:
		l = []ratelimit.Limit{{}, ratelimit.Rate(0, day), ratelimit.Rate(1e12, time.Second), l.Zone("Berlin"), l.Offset(800 * day), l.Take(-1),
			l.Used(3), l.First().Offset(1)}[r.IntN(8)]
	}
	return l
}

func (r *same) limits() ratelimit.Limits {
	all := make(ratelimit.Limits, often(r, 1, 0, 2, 3, 8, 9))
	for i := range all {
		all[i] = r.limit()
	}
	return all
}

func (r *same) name() string { return fmt.Sprint("k", r.IntN(12)) }

func (r *same) slots() string { return fmt.Sprint("s", r.IntN(3)) }

func (r *same) id() string { return often(r, fmt.Sprint("id", r.IntN(4)), "", "a word") }

func (r *same) cost() int64 { return often(r, 1+r.Int64N(3), 0, 100, -1) }

// call is any call but one that may have to wait.
func (r *same) call() ratelimit.Call {
	verb := ratelimit.Verb(r.IntN(int(ratelimit.VerbThrottle) + 1))
	c := ratelimit.Call{Verb: verb, Keys: []ratelimit.Key{{Name: often(r, r.name(), r.slots())}}}
	switch verb {
	case ratelimit.VerbLimit:
		switch r.IntN(4) {
		case 0:
			c = r.admission()
		case 1:
			for range often(r, 2, 3, 8, 9) {
				c.Keys = append(c.Keys, ratelimit.Key{Name: r.name(), Limits: r.limits()})
			}
			c.Any = r.IntN(3) == 0
		}
		c.Keys[0].Limits = r.limits()
		c.Cost, c.Each = r.cost(), r.IntN(4) == 0
		c.NoCost = c.Cost == 0 && r.IntN(2) == 0
		c.Charge = often(r, "", charge.UpTo, charge.Strict, charge.Force, "twice")
		c.Ban = often(r, 0, time.Minute, -time.Second)
		c.BanAfter = often(r, "", "2/1m", "0/1m", "3", "2/1.5h", "9223372036854775807/1ms")
		c.MaxWait = often(r, 0, time.Minute, ratelimit.Forever)
	case ratelimit.VerbPeek, ratelimit.VerbRefund:
		c.Keys[0].Limits = r.limits()
		c.Cost, c.Each = r.cost(), r.IntN(4) == 0
		c.NoCost = c.Cost == 0 && r.IntN(2) == 0
		c.Charge = often(r, "", charge.Strict)
	case ratelimit.VerbWait: // see wait
		return r.call()
	case ratelimit.VerbBan:
		c.Ban = []time.Duration{0, time.Second, time.Minute, 200 * 365 * day, -1}[r.IntN(5)]
	case ratelimit.VerbLease:
		c.Keys[0] = ratelimit.Key{Name: often(r, r.slots(), r.name()), Slots: often(r, r.Int64N(4), -1),
			TTL: often(r, time.Minute, time.Millisecond, 150*365*day, 0)}
		c.ID, c.Group = r.id(), often(r, "", "a")
	case ratelimit.VerbRenew:
		c.Keys[0] = ratelimit.Key{Name: often(r, r.slots(), r.name()), TTL: often(r, time.Hour, 0)}
		c.ID = r.id()
	case ratelimit.VerbRelease:
		c.Keys[0].Name, c.ID = often(r, r.slots(), r.name()), r.id()
	case ratelimit.VerbReset:
	case ratelimit.VerbSettle:
		c = r.admission()
		if n := len(r.admitted); n > 0 && r.IntN(4) > 0 {
			c, r.admitted = r.admitted[n-1], r.admitted[:n-1]
		}
		c = ratelimit.Call{Verb: verb, ID: c.ID, Keys: []ratelimit.Key{{Name: c.Keys[0].Name}, {Name: c.Keys[1].Name}}, Each: r.IntN(4) == 0}
		c.Keys[0].Limits = ratelimit.Limits{r.limit().Take(r.Int64N(4)).Used(r.Int64N(4))}
	case ratelimit.VerbThrottle:
		c.Keys[0].Limits = ratelimit.Limits{often(r, ratelimit.Rate(1+r.Int64N(3), time.Minute), r.limit())}
		c.Cost = r.cost()
		c.NoCost = c.Cost == 0 && r.IntN(2) == 0
	}
	return c
}

// admission takes units and a slot.
func (r *same) admission() ratelimit.Call {
	return ratelimit.Call{ID: r.id(), Keys: []ratelimit.Key{{Name: r.name(), Limits: r.limits()}, {Name: r.slots(), Slots: r.Int64N(4), TTL: time.Minute}}}
}

// answer is what became of a call.
type answer struct {
	result ratelimit.Result
	err    error
}

// decide has both decide a call.
func (r *same) decide(c ratelimit.Call) {
	r.t.Helper()
	var real, fake answer
	real.result, real.err = r.real.Decide(r.t.Context(), c)
	fake.result, fake.err = r.fake.Decide(r.t.Context(), c)
	r.compare(c, real, fake)
}

func (r *same) compare(c ratelimit.Call, real, fake answer) {
	r.t.Helper()
	if !assert.ObjectsAreEqual(real.result, fake.result) || text(real.err) != text(fake.err) || ratelimit.IsOutage(real.err) != ratelimit.IsOutage(fake.err) {
		asked := r.fake.Asked()
		require.Equal(r.t, fmt.Sprintf("%+v\n%v", real.result, real.err), fmt.Sprintf("%+v\n%v", fake.result, fake.err), "%v %v", r.now, asked[len(asked)-1])
	}
	switch {
	case real.err != nil:
		r.errors[c.Verb]++
	case real.result.Limited:
		r.limited[c.Verb]++
	default:
		r.passed[c.Verb]++
		if c.Verb == ratelimit.VerbLimit && c.ID != "" {
			r.admitted = append(r.admitted, c)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// list compares who holds leases.
func (r *same) list() {
	r.t.Helper()
	key := often(r, r.slots(), r.name())
	real, wrong := leases.List(r.t.Context(), r.client, key, 3)
	fake, err := leases.List(r.t.Context(), r.fake, key, 3)
	require.Equal(r.t, text(wrong), text(err))
	require.Equal(r.t, real, fake)
}

// wait has both wait in line until the clock is set to the caller's time, or until the caller leaves.
func (r *same) wait() {
	r.t.Helper()
	key := fmt.Sprint("line", r.made)
	limits := ratelimit.Limits{[]ratelimit.Limit{ratelimit.Rate(1, time.Minute), ratelimit.Window(1, time.Minute),
		ratelimit.FixedMonths(1, 1).Zone("Asia/Tokyo")}[r.IntN(3)]}
	c := ratelimit.Call{Keys: []ratelimit.Key{{Name: key, Limits: limits}}, Cost: 1}
	r.decide(c)
	if r.IntN(3) == 0 {
		c = ratelimit.Call{Verb: ratelimit.VerbLease, Keys: []ratelimit.Key{{Name: "leases" + key, Slots: 1, TTL: time.Minute}}, ID: "first"}
		r.decide(c)
		c.ID, c.MaxWait, c.Group = "second", ratelimit.Forever, "a"
	} else {
		c.Verb = ratelimit.VerbWait
	}
	ctx, leave := context.WithCancel(r.t.Context())
	defer leave()
	reals, fakes := make(chan answer, 1), make(chan answer, 1)
	ask := func(l ratelimit.Decider, answers chan answer) {
		result, err := l.Decide(ctx, c)
		answers <- answer{result, err}
	}
	go ask(r.real, reals)
	go ask(r.fake, fakes)
	r.fake.AwaitBlocked(1)
	waiting := func(want int) {
		require.Eventually(r.t, func() bool {
			info := r.server.Info("throttle")
			return fmt.Sprint(want) == map[bool]string{true: info["throttle_leases_waiting"], false: info["throttle_waiting"]}[c.Verb == ratelimit.VerbLease]
		}, time.Minute, time.Millisecond)
	}
	waiting(1)
	r.waited++
	if c.Verb == ratelimit.VerbLease {
		key = "leases" + key
		holders, err := leases.List(r.t.Context(), r.client, key, 1)
		require.NoError(r.t, err)
		own, err := leases.List(r.t.Context(), r.fake, key, 1)
		require.NoError(r.t, err)
		require.Equal(r.t, holders, own)
	}
	if r.IntN(3) == 0 {
		r.left++
		leave()
	} else {
		r.set(r.now.Add(31 * day))
	}
	real, fake := <-reals, <-fakes
	real.result.Wait, fake.result.Wait = 0, 0 // the server tells it by a clock that the test does not set
	r.compare(c, real, fake)
	waiting(0)
	assert.Zero(r.t, r.fake.Blocked())
}

// A server without the module.
func TestTheErrorWithoutTheModuleIsThatOfAServer(t *testing.T) {
	t.Parallel()
	real, fake := ratelimit.New(commands.On(server.Start(t, server.WithoutModule()).Client(), commands.Options{Send: commands.Module}),
		ratelimit.Options{}), ratelimittest.New(t)
	fake.NoModule()
	for _, l := range []ratelimit.Decider{real, fake} {
		_, err := l.Decide(t.Context(), ratelimit.Call{Keys: []ratelimit.Key{{Name: "secret", Limits: ratelimit.Limits{ratelimit.Rate(1, day)}}}, Cost: 1})
		require.ErrorIs(t, err, ratelimit.ErrNoModule)
		assert.EqualError(t, err, "ratelimit: CL.LIMIT: the server has no throttle.so, or its version is too old: ERR unknown command 'CL.LIMIT'")
	}
}
