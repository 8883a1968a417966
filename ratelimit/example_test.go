package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
)

func Example() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Second, ContextTimeoutEnabled: true})
	defer client.Close()
	limiter := ratelimit.New(client)

	perUser := ratelimit.Limits{ratelimit.Rate(5, time.Hour)}
	for call := 1; call <= 6; call++ {
		result, err := limiter.Limit(ctx, "user:42", perUser).Result()
		if err != nil {
			fmt.Println(err)
			return
		}
		if result.Limited {
			fmt.Println("call", call, "is limited, retry after", result.RetryAfter.Round(time.Minute))
			continue
		}
		fmt.Println("call", call, "is allowed,", result.Remaining, "remaining")
	}
	// Output:
	// call 1 is allowed, 4 remaining
	// call 2 is allowed, 3 remaining
	// call 3 is allowed, 2 remaining
	// call 4 is allowed, 1 remaining
	// call 5 is allowed, 0 remaining
	// call 6 is limited, retry after 12m0s
}

func ExampleLimiter_Throttle() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	// CL.THROTTLE user123 15 30 60 1
	limit := ratelimit.Rate(30, time.Minute).Burst(16)
	result, err := ratelimit.New(client).Throttle(context.Background(), "user123", limit).Result()
	fmt.Println(result.Limited, result.Limit, result.Remaining, result.RetryAfter, result.ResetAfter, err)
	// Output: false 16 15 0s 2s <nil>
}

// Several limits are decided at one instant: all are charged, or none.
func ExampleLimiter_Limit_stack() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client)

	limits := ratelimit.Limits{
		ratelimit.Rate(10, time.Hour).Named("hourly"),
		ratelimit.Rate(1000, 30*24*time.Hour).Burst(12).Named("monthly"),
	}
	for _, cost := range []int64{8, 8, 2} {
		result, err := limiter.Limit(ctx, "tenant:7", limits, ratelimit.Cost(cost)).Result()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(limits[result.Rule], "decided: limited", result.Limited, "remaining", result.Remaining)
	}
	// Output:
	// RATE 10/1h decided: limited false remaining 2
	// RATE 1000/30d BURST 12 decided: limited true remaining 4
	// RATE 10/1h decided: limited false remaining 0
}

// A queue instead of a rejection: each caller is told how long to hold its request.
func ExampleMaxWait() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client)

	limits := ratelimit.Limits{ratelimit.Rate(1, time.Hour)}
	for range 3 {
		result, err := limiter.Limit(ctx, "exports", limits, ratelimit.MaxWait(90*time.Minute)).Result()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("limited", result.Limited, "wait", result.Wait.Round(time.Minute))
	}
	// Output:
	// limited false wait 0s
	// limited false wait 1h0m0s
	// limited true wait 0s
}

func ExampleLimiter_Refund() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client)

	limits := ratelimit.Limits{ratelimit.Fixed(1000, 24*time.Hour)}
	taken, _ := limiter.Limit(ctx, "mail:42", limits, ratelimit.Cost(100)).Result()
	given, err := limiter.Refund(ctx, "mail:42", limits, ratelimit.Cost(30)).Result() // 30 were not sent
	fmt.Println(taken.Remaining, given.Remaining, err)
	// Output: 900 930 <nil>
}

// One request and the tokens it used are one decision.
func ExampleLimit_Take() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	requests, tokens := ratelimit.Rate(60, time.Hour), ratelimit.Rate(100_000, time.Hour)
	result, err := ratelimit.New(client).Limit(ctx, "llm:42", ratelimit.Limits{requests.Take(1), tokens.Take(523)}).Result()
	fmt.Println(result.Limited, result.Remaining, err)
	// Output: false 59 <nil>
}

// The last 20 units are for callers that matter more.
func ExampleLimit_Spare() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client)
	api := ratelimit.Fixed(100, 24*time.Hour)
	for _, limit := range []ratelimit.Limit{api, api.Spare(20)} {
		result, err := limiter.Limit(ctx, "api:7", ratelimit.Limits{limit}, ratelimit.Cost(70)).Result()
		fmt.Println(result.Limited, result.Remaining, err)
	}
	// Output:
	// false 30 <nil>
	// true 10 <nil>
}

// A new limit is tried out before it is enforced.
func ExampleLimit_Shadow() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client)
	limits := ratelimit.Limits{ratelimit.Fixed(1000, 24*time.Hour), ratelimit.Rate(2, time.Hour).Shadow()}
	for range 3 {
		result, err := limiter.Limit(ctx, "api:8", limits).Result()
		if err != nil {
			fmt.Println(err)
			return
		}
		if result.Shadowed {
			fmt.Println("would have been limited by", limits[result.Shadow])
		}
	}
	// Output: would have been limited by RATE 2/1h SHADOW
}

func ExampleFixedMonths() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	plan := ratelimit.Limits{ratelimit.FixedMonths(100_000, 1).In("Europe/Berlin")}
	result, err := ratelimit.New(client).Limit(ctx, "plan:42", plan, ratelimit.Cost(250)).Result()
	fmt.Println(result.Remaining, result.ResetAfter <= 32*24*time.Hour, err)
	// Output: 99750 true <nil>
}

// What was used is a fact: it is charged also where it is not there.
func ExampleForce() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limits := ratelimit.Limits{ratelimit.Rate(1000, time.Hour)}
	result, err := ratelimit.New(client).Limit(ctx, "tokens:42", limits, ratelimit.Cost(1500), ratelimit.Force()).Result()
	fmt.Println(result.Limited, result.Granted, result.ResetAfter.Round(time.Minute), err)
	// Output: true 1500 1h30m0s <nil>
}

func ExampleBan() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client)
	attempts := ratelimit.Limits{ratelimit.Rate(2, time.Minute)}
	for range 4 {
		result, err := limiter.Limit(ctx, "login:7", attempts, ratelimit.Ban(15*time.Minute)).Result()
		fmt.Println(result.Limited, result.Banned, result.RetryAfter.Round(time.Minute), err)
	}
	// Output:
	// false false 0s <nil>
	// false false 0s <nil>
	// true false 15m0s <nil>
	// true true 15m0s <nil>
}

func ExampleLimiter_Ban() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client)
	banned, err := limiter.Ban(ctx, "user:13", time.Hour).Result()
	fmt.Println(banned.Round(time.Minute), err)
	banned, err = limiter.Ban(ctx, "user:13", 0).Result() // lifts the ban
	fmt.Println(banned, err)
	// Output:
	// 1h0m0s <nil>
	// 0s <nil>
}

func ExampleLimiter_Wait() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client)

	limits := ratelimit.Limits{ratelimit.Rate(20, time.Second).Burst(1)}
	for range 3 { // one every 50 ms
		result, err := limiter.Wait(ctx, "calls", limits, 10*time.Second).Result()
		fmt.Println(result.Limited, err)
	}
	// Output:
	// false <nil>
	// false <nil>
	// false <nil>
}

// A request that counts for a user and for the user's organisation: both are charged, or none.
func ExampleLimiter_LimitKeys() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client)
	organisation := ratelimit.KeyLimits{Key: "{acme}", Limits: ratelimit.Limits{ratelimit.Rate(3, time.Hour)}}
	for _, user := range []string{"{acme}:ann", "{acme}:bob"} {
		keys := []ratelimit.KeyLimits{{Key: user, Limits: ratelimit.Limits{ratelimit.Rate(2, time.Hour)}}, organisation}
		result, err := limiter.LimitKeys(ctx, keys, ratelimit.Cost(2)).Result()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(result.Limited, keys[result.Key].Key)
	}
	// Output:
	// false {acme}:ann
	// true {acme}
}

// A request goes to the first provider that has room.
func ExampleLimiter_LimitAny() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client)
	perHour := ratelimit.Limits{ratelimit.Rate(1, time.Hour)}
	providers := []ratelimit.KeyLimits{{Key: "{llm}:near", Limits: perHour}, {Key: "{llm}:far", Limits: perHour}}
	for range 3 {
		result, err := limiter.LimitAny(ctx, providers).Result()
		fmt.Println(result.Limited, providers[result.Key].Key, err)
	}
	// Output:
	// false {llm}:near <nil>
	// false {llm}:far <nil>
	// true {llm}:near <nil>
}

// In a cluster, keys of different slots are asked one after the other, the tightest first. What was charged
// before a denial is given back.
func ExampleLimiter_Refund_acrossSlots() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client)
	keys := []ratelimit.KeyLimits{
		{Key: "user:ann", Limits: ratelimit.Limits{ratelimit.Rate(5, time.Hour)}},
		{Key: "acme", Limits: ratelimit.Limits{ratelimit.Rate(1, time.Hour)}},
	}
	all := func() (bool, error) {
		for i, k := range keys {
			result, err := limiter.Limit(ctx, k.Key, k.Limits).Result()
			if err == nil && !result.Limited {
				continue
			}
			for _, charged := range keys[:i] {
				_, refundErr := limiter.Refund(ctx, charged.Key, charged.Limits).Result()
				err = errors.Join(err, refundErr)
			}
			return false, err
		}
		return true, nil
	}
	fmt.Println(all())
	fmt.Println(all())
	left, err := limiter.Peek(ctx, "user:ann", keys[0].Limits).Result()
	fmt.Println(left.Remaining, err)
	// Output:
	// true <nil>
	// false <nil>
	// 4 <nil>
}

// In place of rate.NewLimiter(rate.Every(12*time.Minute), 2) of golang.org/x/time/rate.
func ExampleNewBucket() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	bucket := ratelimit.NewBucket(ratelimit.New(client), "reports", ratelimit.Rate(5, time.Hour).Burst(2))
	fmt.Println(bucket.Allow(), bucket.Allow(), bucket.Allow())
	reservation := bucket.Reserve()
	fmt.Println(reservation.OK(), reservation.Delay().Round(time.Minute))
	reservation.Cancel()

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := bucket.Wait(ctx) // knows at once that this would take too long
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// true true false
	// true 12m0s
	// true
}

// Calls that go out together, in one round trip.
func ExampleNew_pipeline() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	pipe := client.Pipeline()
	limiter := ratelimit.New(pipe)
	perDay := ratelimit.Limits{ratelimit.Rate(1000, 24*time.Hour)}
	byUser := limiter.Limit(ctx, "user:1", perDay)
	byAddress := limiter.Limit(ctx, "address:203.0.113.7", perDay)
	if _, err := pipe.Exec(ctx); err != nil {
		fmt.Println(err)
		return
	}
	user, _ := byUser.Result()
	address, _ := byAddress.Result()
	fmt.Println(user.Limited || address.Limited)
	// Output: false
}

func ExampleRetry() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client)

	limits := ratelimit.Limits{ratelimit.Rate(10, time.Second).Burst(1)}
	for range 2 {
		err := ratelimit.Retry(ctx, func(ctx context.Context) error {
			result, err := limiter.Limit(ctx, "jobs", limits).Result()
			if err != nil {
				return err
			}
			if err := result.Err(); err != nil {
				return err // Retry waits and tries again
			}
			fmt.Println("the job")
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// the job
	// the job
}

func ExampleMiddleware() {
	client := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Second, ContextTimeoutEnabled: true})
	defer client.Close()

	limited := ratelimit.Middleware{
		Limiter: ratelimit.New(client),
		Limits:  ratelimit.Limits{ratelimit.Rate(2, time.Hour).Named("hourly")},
		Key:     func(r *http.Request) string { return "api:" + ratelimit.RemoteHost(r) },
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })
	handler := limited.Wrap(hello) // http.ListenAndServe("127.0.0.1:8080", handler)

	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"), w.Header().Get("RateLimit")[:len(`"hourly";r=0`)])
	}
	// Output:
	// 200 "hourly";q=2;w=3600 "hourly";r=1
	// 200 "hourly";q=2;w=3600 "hourly";r=0
	// 429 "hourly";q=2;w=3600 "hourly";r=0
}
