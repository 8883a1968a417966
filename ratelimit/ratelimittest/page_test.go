package ratelimittest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/ratelimittest"
)

// site serves two requests a minute for each user.
func site(limiter ratelimit.Decider) http.Handler {
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
	return httplimit.New(limiter, httplimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(2, time.Minute)},
		Key:    func(r *http.Request) string { return r.Header.Get("User") },
	})(hello)
}

// send sends messages to a partner who takes one a minute.
func send(ctx context.Context, limiter *ratelimit.Limiter, messages int) error {
	for range messages {
		if _, err := limiter.Wait(ctx, "partner", ratelimit.Limits{ratelimit.Rate(1, time.Minute)}, 1); err != nil {
			return err
		}
	}
	return nil
}

// get is the status of a request.
func get(handler http.Handler) int {
	response, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	request.Header.Set("User", "42")
	handler.ServeHTTP(response, request)
	return response.Code
}

func TestTheThirdRequestOfAMinuteIsRefused(t *testing.T) {
	limiter := ratelimittest.New(t)
	handler := site(limiter)
	for i, want := range []int{200, 200, 429, 200} {
		if status := get(handler); status != want {
			t.Errorf("request %d: %d, want %d", i, status, want)
		}
		limiter.Advance(10 * time.Second)
	}
}

func TestAJobWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := ratelimittest.New(t)
		began := time.Now()
		err := send(t.Context(), limiter.Limiter, 3)
		if took := time.Since(began); err != nil || took != 2*time.Minute {
			t.Errorf("three messages took %v: %v", took, err)
		}
	})
}

func TestRequestsAreServedDuringAnOutage(t *testing.T) {
	limiter := ratelimittest.New(t)
	handler := site(limiter)
	limiter.Fail(ratelimittest.ErrOutage)
	for range 3 {
		if status := get(handler); status != 200 {
			t.Errorf("during an outage: %d", status)
		}
	}
}

func TestAMonthEndsWhereTheCustomerIs(t *testing.T) {
	berlin, _ := time.LoadLocation("Europe/Berlin")
	quota := ratelimit.Limits{ratelimit.FixedMonths(1000, 1).Zone("Europe/Berlin")}
	limiter := ratelimittest.New(t)
	limiter.SetTime(time.Date(2026, 3, 31, 23, 59, 0, 0, berlin))
	for i, limited := range []bool{false, true, false} {
		result, err := limiter.Limit(t.Context(), "customer:7", quota, 1000)
		if err != nil || result.Limited != limited {
			t.Errorf("call %d: %+v, %v", i, result, err)
		}
		limiter.Advance(30 * time.Second)
	}
}
