package inspect_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/inspect"
)

// A customer calls: is the key banned, and what was used of which limit.
func ExampleKey() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client, ratelimit.Options{})
	limits := ratelimit.Limits{ratelimit.Rate(60, time.Hour).Burst(10), ratelimit.Fixed(1000, 24*time.Hour)}
	_, _ = limiter.Decide(ctx, ratelimit.Call{Keys: []ratelimit.Key{{Name: "user:42", Limits: limits}}, Cost: 3})

	holding, err := inspect.Key(ctx, client, "user:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(holding.Kind, "banned:", holding.Banned())
	for _, limit := range holding.Limits {
		fmt.Println(limit.Kind, limit.Period, limit.Used, limit.ResetAt.After(holding.Now))
	}
	// Output:
	// limits banned: false
	// RATE 1h0m0s -1 true
	// FIXED 24h0m0s 3 true
}

// odd answers every command with the same reply.
type odd struct{ reply any }

func (o odd) Process(_ context.Context, cmd redis.Cmder) error {
	cmd.(*redis.Cmd).SetVal(o.reply)
	return nil
}

func TestAReplyThatIsNoHoldingIsAMistake(t *testing.T) {
	for _, reply := range []any{
		"OK", []any{}, []any{"kind", "none"}, map[any]any{"kind": int64(1)},
		[]any{"kind", "rate", "now_ms", int64(1), "bytes", int64(1), "expires_at_ms", int64(1), "banned_until_ms", int64(0), "held", int64(0),
			"lapses_at_ms", int64(0), "waiting", int64(0), "limits", []any{[]any{"kind", "RATE"}}},
	} {
		_, err := inspect.Key(t.Context(), odd{reply}, "k")
		assert.ErrorContains(t, err, "not what a key holds", "%v", reply)
	}
}
