package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/charge"
)

func Example() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Second, ContextTimeoutEnabled: true})
	defer client.Close()
	limiter := ratelimit.New(client, ratelimit.Options{})

	perUser := ratelimit.Limits{ratelimit.Rate(5, time.Hour)}
	for call := 1; call <= 6; call++ {
		result, err := limiter.Limit(ctx, "user:42", perUser, 1)
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

// limiter asks the server of all examples.
var limiter = ratelimit.New(redis.NewClient(&redis.Options{Addr: addr}), ratelimit.Options{})

func ExampleCall_throttle() {
	// CL.THROTTLE user123 15 30 60 1
	limit := ratelimit.Rate(30, time.Minute).Burst(16)
	result, err := limiter.Decide(context.Background(),
		ratelimit.Call{Verb: ratelimit.VerbThrottle, Keys: []ratelimit.Key{{Name: "user123", Limits: ratelimit.Limits{limit}}}, Cost: 1})
	fmt.Println(result.Limited, result.Limit, result.Remaining, result.RetryAfter, result.ResetAfter, err)
	// Output: false 16 15 0s 2s <nil>
}

// Several limits are decided at one instant: all are charged, or none.
func ExampleLimiter_Limit_stack() {
	ctx := context.Background()
	limits := ratelimit.Limits{
		ratelimit.Rate(10, time.Hour).Named("hourly"),
		ratelimit.Rate(1000, 30*24*time.Hour).Burst(12).Named("monthly"),
	}
	for _, cost := range []int64{8, 8, 2} {
		result, err := limiter.Limit(ctx, "tenant:7", limits, cost)
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
func ExampleCall_maxWait() {
	ctx := context.Background()
	limits := ratelimit.Limits{ratelimit.Rate(1, time.Hour)}
	for range 3 {
		result, err := limiter.Decide(ctx, ratelimit.Call{Keys: []ratelimit.Key{{Name: "exports", Limits: limits}}, Cost: 1, MaxWait: 90 * time.Minute})
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
	limits := ratelimit.Limits{ratelimit.Fixed(1000, 24*time.Hour)}
	taken, _ := limiter.Limit(ctx, "mail:42", limits, 100)
	returned, err := limiter.Refund(ctx, "mail:42", limits, 30) // 30 were not sent
	fmt.Println(taken.Remaining, returned, err)
	// Output: 900 30 <nil>
}

// One request and the tokens it used are one decision.
func ExampleLimit_Take() {
	ctx := context.Background()
	requests, tokens := ratelimit.Rate(60, time.Hour), ratelimit.Rate(100_000, time.Hour)
	result, err := limiter.Limit(ctx, "llm:42", ratelimit.Limits{requests.Take(1), tokens.Take(523)}, 1)
	fmt.Println(result.Limited, result.Remaining, err)
	// Output: false 59 <nil>
}

// The last 20 units are for callers that matter more.
func ExampleLimit_Spare() {
	ctx := context.Background()
	api := ratelimit.Fixed(100, 24*time.Hour)
	for _, limit := range []ratelimit.Limit{api, api.Spare(20)} {
		result, err := limiter.Limit(ctx, "api:7", ratelimit.Limits{limit}, 70)
		fmt.Println(result.Limited, result.Remaining, err)
	}
	// Output:
	// false 30 <nil>
	// true 10 <nil>
}

// A new limit is tried out before it is enforced.
func ExampleLimit_Shadow() {
	ctx := context.Background()
	limits := ratelimit.Limits{ratelimit.Fixed(1000, 24*time.Hour), ratelimit.Rate(2, time.Hour).Shadow()}
	for range 3 {
		result, err := limiter.Limit(ctx, "api:8", limits, 1)
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
	plan := ratelimit.Limits{ratelimit.FixedMonths(100_000, 1).Zone("Europe/Berlin")}
	result, err := limiter.Limit(ctx, "plan:42", plan, 250)
	fmt.Println(result.Remaining, result.ResetAfter <= 32*24*time.Hour, err)
	// Output: 99750 true <nil>
}

// What was used is a fact: it is charged also where it is not there.
func ExampleCall_force() {
	ctx := context.Background()
	limits := ratelimit.Limits{ratelimit.Rate(1000, time.Hour)}
	result, err := limiter.Decide(ctx, ratelimit.Call{Keys: []ratelimit.Key{{Name: "tokens:42", Limits: limits}}, Cost: 1500, Charge: charge.Force})
	fmt.Println(result.Limited, result.Granted, result.ResetAfter.Round(time.Minute), err)
	// Output: true 1500 1h30m0s <nil>
}

func ExampleCall_ban() {
	ctx := context.Background()
	attempts := ratelimit.Limits{ratelimit.Rate(2, time.Minute)}
	for range 4 {
		result, err := limiter.Decide(ctx, ratelimit.Call{Keys: []ratelimit.Key{{Name: "login:7", Limits: attempts}}, Cost: 1, Ban: 15 * time.Minute})
		fmt.Println(result.Limited, result.Banned, result.RetryAfter.Round(time.Minute), err)
	}
	// Output:
	// false false 0s <nil>
	// false false 0s <nil>
	// true false 15m0s <nil>
	// true true 15m0s <nil>
}

// A login: few attempts of one address at one account, and a ban after ten of them too many. Of all addresses together
// the account takes far more, so that a stranger who guesses does not lock its owner out.
func ExampleCall_login() {
	ctx := context.Background()
	attempt := ratelimit.Call{
		Keys: []ratelimit.Key{
			{Name: "{login:ann}:203.0.113.7", Limits: ratelimit.Limits{ratelimit.Rate(5, 15*time.Minute)}},
			{Name: "{login:ann}", Limits: ratelimit.Limits{ratelimit.Rate(300, 24*time.Hour)}},
		},
		Ban: time.Hour, BanAfter: "10/1h",
	}
	for i := range 16 {
		result, err := limiter.Decide(ctx, attempt)
		if err != nil {
			log.Fatal(err)
		}
		if i == 4 || i == 5 || i == 14 || i == 15 {
			fmt.Println(i+1, result.Limited, result.Banned, result.RetryAfter.Round(time.Minute))
		}
	}
	// Output:
	// 5 false false 0s
	// 6 true false 3m0s
	// 15 true false 1h0m0s
	// 16 true true 1h0m0s
}

func ExampleLimiter_Ban() {
	ctx := context.Background()
	banned, err := limiter.Ban(ctx, "user:13", time.Hour)
	fmt.Println(banned.Round(time.Minute), err)
	banned, err = limiter.Ban(ctx, "user:13", 0) // lifts the ban
	fmt.Println(banned, err)
	// Output:
	// 1h0m0s <nil>
	// 0s <nil>
}

func ExampleLimiter_Wait() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	limits := ratelimit.Limits{ratelimit.Rate(20, time.Second).Burst(1)}
	for range 3 { // one every 50 ms
		result, err := limiter.Decide(ctx, ratelimit.Call{Verb: ratelimit.VerbWait, Keys: []ratelimit.Key{{Name: "calls", Limits: limits}}, Cost: 1,
			MaxWait: 10 * time.Second})
		fmt.Println(result.Limited, err)
	}
	// Output:
	// false <nil>
	// false <nil>
	// false <nil>
}

// A request that counts for a user and for the user's organisation: both are charged, or none.
func ExampleCall_keys() {
	ctx := context.Background()
	organisation := ratelimit.Key{Name: "{acme}", Limits: ratelimit.Limits{ratelimit.Rate(3, time.Hour)}}
	for _, user := range []string{"{acme}:ann", "{acme}:bob"} {
		keys := []ratelimit.Key{{Name: user, Limits: ratelimit.Limits{ratelimit.Rate(2, time.Hour)}}, organisation}
		result, err := limiter.Decide(ctx, ratelimit.Call{Keys: keys, Cost: 2})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(result.Limited, result.Key)
	}
	// Output:
	// false {acme}:ann
	// true {acme}
}

// A request goes to the first provider that has room.
func ExampleCall_any() {
	ctx := context.Background()
	perHour := ratelimit.Limits{ratelimit.Rate(1, time.Hour)}
	providers := []ratelimit.Key{{Name: "{llm}:near", Limits: perHour}, {Name: "{llm}:far", Limits: perHour}}
	for range 3 {
		result, err := limiter.Decide(ctx, ratelimit.Call{Keys: providers, Cost: 1, Any: true})
		fmt.Println(result.Limited, result.Key, err)
	}
	// Output:
	// false {llm}:near <nil>
	// false {llm}:far <nil>
	// true {llm}:near <nil>
}

// An LLM gateway: a request is admitted with an estimate of its tokens and one of two slots, and is settled when the
// tokens are known. The admission again, before its slot lapses, keeps the slot and charges nothing. The settlement
// again changes nothing.
func ExampleCall_settle() {
	ctx := context.Background()
	perDay := ratelimit.Window(10_000, 24*time.Hour)
	const estimate = 2000
	admission := ratelimit.Call{ID: "req-81", Keys: []ratelimit.Key{
		{Name: "llm:{42}:tokens", Limits: ratelimit.Limits{perDay.Take(estimate)}},
		{Name: "llm:{42}:running", Slots: 2, TTL: 30 * time.Second},
	}}
	settlement := ratelimit.Call{Verb: ratelimit.VerbSettle, ID: "req-81", Keys: []ratelimit.Key{
		{Name: "llm:{42}:tokens", Limits: ratelimit.Limits{perDay.Take(estimate).Used(2600)}},
		{Name: "llm:{42}:running"},
	}}
	for _, call := range []ratelimit.Call{admission, admission, settlement, settlement} {
		result, err := limiter.Decide(ctx, call)
		if err != nil {
			fmt.Println(err)
			return
		}
		left, err := limiter.Peek(ctx, "llm:{42}:tokens", ratelimit.Limits{perDay}, 1)
		fmt.Println(call.Verb, "limited:", result.Limited, "tokens left:", left.Remaining, err)
	}
	// Output:
	// limit limited: false tokens left: 8000 <nil>
	// limit limited: false tokens left: 8000 <nil>
	// settle limited: false tokens left: 7400 <nil>
	// settle limited: true tokens left: 7400 <nil>
}

// In a cluster, keys of different slots are asked one after the other, the tightest first. What was charged
// before a denial is given back.
func ExampleLimiter_Refund_acrossSlots() {
	ctx := context.Background()
	keys := []ratelimit.Key{
		{Name: "user:ann", Limits: ratelimit.Limits{ratelimit.Rate(5, time.Hour)}},
		{Name: "acme", Limits: ratelimit.Limits{ratelimit.Rate(1, time.Hour)}},
	}
	all := func() (bool, error) {
		for i, k := range keys {
			result, err := limiter.Limit(ctx, k.Name, k.Limits, 1)
			if err == nil && !result.Limited {
				continue
			}
			for _, charged := range keys[:i] {
				_, refundErr := limiter.Refund(ctx, charged.Name, charged.Limits, 1)
				err = errors.Join(err, refundErr)
			}
			return false, err
		}
		return true, nil
	}
	fmt.Println(all())
	fmt.Println(all())
	left, err := limiter.Peek(ctx, "user:ann", keys[0].Limits, 1)
	fmt.Println(left.Remaining, err)
	// Output:
	// true <nil>
	// false <nil>
	// 4 <nil>
}
