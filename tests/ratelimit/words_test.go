package ratelimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
)

func TestEachLimitCanTakeUnitsOfItsOwn(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	l := ratelimit.New(s.Client(), ratelimit.Options{})
	requests, tokens := ratelimit.Rate(60, day), ratelimit.Window(1000, day)
	r, err := l.Limit(t.Context(), "k", ratelimit.Limits{requests.Take(1), tokens.Take(523)}, 99)
	require.NoError(t, err)
	require.False(t, r.Limited)
	assert.EqualValues(t, 1, r.Granted)
	for limit, want := range map[ratelimit.Limit]int64{requests: 59, tokens: 477} {
		assert.Equal(t, want, remaining(t, s, "k", ratelimit.Limits{limit}), limit)
	}
}

func TestSparedUnitsStayBehindAndAreRefundedAllTheSame(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(server.Start(t).Client(), ratelimit.Options{})
	limits := ratelimit.Limits{ratelimit.Fixed(10, day).Spare(4)}
	r, err := l.Limit(t.Context(), "k", limits, 6)
	require.NoError(t, err)
	assert.False(t, r.Limited)
	assert.Zero(t, r.Remaining)
	r, err = l.Limit(t.Context(), "k", limits, 1)
	require.NoError(t, err)
	assert.True(t, r.Limited)
	r, err = l.Refund(t.Context(), "k", limits, 2)
	require.NoError(t, err)
	assert.EqualValues(t, -2, r.Granted)
	assert.EqualValues(t, 6, r.Remaining, "of all ten")
}

func TestShadowIsNamedByItsIndex(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(server.Start(t).Client(), ratelimit.Options{})
	limits := ratelimit.Limits{ratelimit.Fixed(10, day), ratelimit.Fixed(9, day/2), ratelimit.Fixed(1, day/3).Shadow()}
	for call, shadowed := range []bool{false, true} {
		r, err := l.Limit(t.Context(), "k", limits, 1)
		require.NoError(t, err)
		assert.False(t, r.Limited)
		assert.Equal(t, 1, r.Rule)
		assert.Equal(t, shadowed, r.Shadowed, "call %d", call)
		if shadowed {
			assert.Equal(t, 2, r.Shadow)
		}
	}
}

func TestForceChargesIntoDebt(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(server.Start(t).Client(), ratelimit.Options{})
	limits := ratelimit.Limits{ratelimit.Rate(24, day)}
	began := time.Now()
	r, err := l.Decide(t.Context(), calls.On("k", limits, calls.Cost(30), calls.Force))
	require.NoError(t, err)
	requireResult(t, began, ratelimit.Result{Limited: true, Limit: 24, RetryAfter: ratelimit.Never, Granted: 30,
		ResetAfter: 30 * time.Hour, NextAfter: 7 * time.Hour}, r)
}

func TestBannedKeyLimitsEveryCommand(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		s := server.Start(t)
		l := ratelimit.New(s.Client(server.Protocol(protocol)), ratelimit.Options{})
		limits := ratelimit.Limits{ratelimit.Rate(2, day), ratelimit.Rate(1, day).Burst(1)}
		began := time.Now()
		banned, err := l.Ban(t.Context(), "k", time.Hour)
		require.NoError(t, err)
		assert.Equal(t, time.Hour, banned)
		want := ratelimit.Result{Limited: true, Banned: true, Limit: 2, RetryAfter: time.Hour, ResetAfter: time.Hour, NextAfter: time.Hour}
		for name, got := range map[string]answer{
			"limit":   answered(l.Limit(t.Context(), "k", limits, 1)),
			"nothing": answered(l.Limit(t.Context(), "k", limits, 0)),
			"queue":   answered(l.Decide(t.Context(), calls.On("k", limits, calls.MaxWait(time.Minute)))),
			"peek":    answered(l.Peek(t.Context(), "k", limits, 1)),
			"wait":    answered(l.Decide(t.Context(), calls.InLine("k", limits, time.Second))),
		} {
			r, err := got.Result()
			require.NoError(t, err, name)
			requireResult(t, began, want, r)
			assert.ErrorContains(t, r.Err(), "banned", name)
		}
		forced, err := l.Decide(t.Context(), calls.On("k", limits, calls.Force))
		require.NoError(t, err)
		assert.True(t, forced.Banned)
		assert.EqualValues(t, 1, forced.Granted)
		refunded, err := l.Refund(t.Context(), "k", limits, 1)
		require.NoError(t, err)
		assert.False(t, refunded.Banned)
		assert.EqualValues(t, -1, refunded.Granted)

		// CL.THROTTLE has no field that tells.
		throttled, err := l.Decide(t.Context(), calls.Throttle("k", limits[0], 0))
		require.NoError(t, err)
		assert.Equal(t, ratelimit.Result{Limited: true, Limit: 2, RetryAfter: time.Hour, ResetAfter: time.Hour, By: "server"}, throttled)

		banned, err = l.Ban(t.Context(), "k", time.Minute)
		require.NoError(t, err)
		assert.Greater(t, banned, 50*time.Minute, "a ban is never shortened")
		banned, err = l.Ban(t.Context(), "k", 0)
		require.NoError(t, err)
		assert.Zero(t, banned)
		r, err := l.Limit(t.Context(), "k", limits, 1)
		require.NoError(t, err)
		assert.False(t, r.Limited)
	}
}

func TestCallThatIsLimitedBansItsKey(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(server.Start(t).Client(), ratelimit.Options{})
	limits := ratelimit.Limits{ratelimit.Rate(1, time.Minute)}
	for _, want := range []ratelimit.Result{
		{},
		{Limited: true},
		{Limited: true, Banned: true},
	} {
		r, err := l.Decide(t.Context(), calls.On("k", limits, calls.Ban(time.Hour)))
		require.NoError(t, err)
		assert.Equal(t, want.Limited, r.Limited)
		assert.Equal(t, want.Banned, r.Banned)
		if r.Limited {
			assert.Greater(t, r.RetryAfter, time.Minute)
		}
	}
}

// Each calendar limit is a window of its own: the length that it can still have tells.
func TestWindowsOfTheCalendar(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(server.Start(t).Client(), ratelimit.Options{})
	for _, c := range []struct {
		limit ratelimit.Limit
		most  time.Duration
	}{
		{ratelimit.FixedWeeks(5, 1), 7 * day},
		{ratelimit.FixedWeeks(5, 1).Offset(6 * day).Zone("America/New_York"), 7*day + time.Hour},
		{ratelimit.FixedMonths(5, 1), 31 * day},
		{ratelimit.FixedMonths(5, 3).Zone("Europe/Berlin"), 92*day + time.Hour},
		{ratelimit.FixedYears(5, 1).Zone("Asia/Tokyo"), 366 * day},
		{ratelimit.Fixed(5, day).Zone("Europe/Berlin").Offset(6 * time.Hour), 25 * time.Hour},
		{ratelimit.Fixed(5, time.Minute).Offset(30 * time.Second), time.Minute},
	} {
		r, err := l.Limit(t.Context(), c.limit.String(), ratelimit.Limits{c.limit}, 1)
		require.NoError(t, err, c.limit)
		assert.EqualValues(t, 4, r.Remaining, c.limit)
		assert.Positive(t, r.ResetAfter, c.limit)
		assert.LessOrEqual(t, r.ResetAfter, c.most, c.limit)
	}
	began := time.Now()
	r, err := l.Limit(t.Context(), "first", ratelimit.Limits{ratelimit.Fixed(3, 10*time.Minute).First()}, 1)
	require.NoError(t, err)
	requireResult(t, began, ratelimit.Result{Limit: 3, Remaining: 2, Granted: 1, ResetAfter: 10 * time.Minute, NextAfter: 10 * time.Minute}, r)
}

func TestCombinationsThatOnlyTheServerCanJudgeGetItsError(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(server.Start(t).Client(), ratelimit.Options{})
	for _, c := range []struct {
		limit ratelimit.Limit
		opts  []calls.Option
		want  string
	}{
		{ratelimit.Fixed(5, day).Zone("Berlin"), nil, "syntax error near 'Berlin': no time zone has this name; did you mean Europe/Berlin?"},
		{ratelimit.Fixed(5, time.Hour).Zone("UTC"), nil, "TZ goes with periods of whole days"},
		{ratelimit.FixedMonths(5, 1).First(), nil, "FIRST goes with periods of one length"},
		{ratelimit.Fixed(5, day).Offset(day), nil, "OFFSET must be shorter than the period"},
		{ratelimit.Fixed(5, day).Offset(-time.Hour), nil, "OFFSET takes a length of time"},
		{ratelimit.Rate(5, day), []calls.Option{calls.Force, calls.UpTo}, "syntax error near 'UPTO': cannot go with FORCE"},
		{ratelimit.Rate(5, day), []calls.Option{calls.Ban(time.Hour), calls.MaxWait(time.Hour)}, "cannot go with"},
		{ratelimit.Rate(5, day).Take(2), []calls.Option{calls.UpTo}, "'UPTO': cannot go with TAKE"},
		{ratelimit.Rate(5, day), []calls.Option{calls.Ban(-time.Hour)}, "BAN takes a length of time"},
	} {
		_, err := l.Decide(t.Context(), calls.On("k", ratelimit.Limits{c.limit}, c.opts...))
		assert.ErrorContains(t, err, c.want, c.limit)
	}
	_, err := l.Decide(t.Context(), calls.InLine("k", ratelimit.Limits{ratelimit.Rate(5, day).Shadow()}, time.Second))
	assert.ErrorContains(t, err, "'SHADOW'")
	_, err = l.Ban(t.Context(), "k", -time.Hour)
	assert.ErrorContains(t, err, "ratelimit: CL.BAN: ERR duration must be a length of time")
}

func TestMiddlewareSaysOfABannedKeyThatNoQuotaWasExceeded(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(server.Start(t).Client(), ratelimit.Options{})
	_, err := l.Ban(t.Context(), "k", time.Hour)
	require.NoError(t, err)
	handler := httplimit.New(l, httplimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(5, time.Minute), ratelimit.Fixed(100, day)},
		Key:    func(*http.Request) string { return "k" },
	})(http.NotFoundHandler())
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	assert.Equal(t, http.StatusTooManyRequests, w.Code)
	assert.Equal(t, `"limit-1";r=0;t=3600, "limit-2";r=0;t=3600`, w.Header().Get("RateLimit"))
	assert.Equal(t, "3600", w.Header().Get("Retry-After"))
	assert.Contains(t, w.Body.String(), "#abnormal-usage-detected")
	assert.NotContains(t, w.Body.String(), "violated-policies")
}
