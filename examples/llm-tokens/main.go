// Reserve, then settle: requests to a language model under 60 requests a minute and 10,000 tokens an
// hour, where the number of tokens is known only afterwards. An estimate is charged before, and the difference
// after: as a debt if it was too low, as a refund if it was too high.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	client, err := connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := demo(context.Background(), client); err != nil {
		log.Fatal(err)
	}
}

// connect makes a client for REDIS_URL, with REDIS_CLUSTER for the cluster it is a node of.
func connect() (redis.UniversalClient, error) {
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379"))
	if err != nil {
		return nil, err
	}
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: []string{options.Addr}, Username: options.Username, Password: options.Password,
		IsClusterMode: os.Getenv("REDIS_CLUSTER") != "",
		DialTimeout:   time.Second, DialerRetries: 1, ReadTimeout: time.Second,
	}), nil
}

// tokens is what one customer may use.
type tokens struct {
	client redis.UniversalClient
	key    string
}

// errLimited is what call says of a request that was not sent.
type errLimited struct{ retryAfter time.Duration }

func (e errLimited) Error() string { return fmt.Sprint("limited, come back in ", e.retryAfter) }

// call charges one request and an estimate, runs the request, and settles. A caller that dies in
// between leaves its estimate charged, which nobody has to clean up: it comes back like all tokens.
func (t tokens) call(ctx context.Context, estimate int64, request func() (used int64, err error)) error {
	reply, err := t.command(ctx, "CL.LIMIT", 1, estimate)
	if err != nil {
		return err
	}
	if limited, retryAfter := reply[0] == 1, time.Duration(reply[4])*time.Millisecond; limited {
		return errLimited{retryAfter}
	}
	used, err := request()
	// Settle also when the request was cancelled: what was used is a fact.
	return errors.Join(err, t.settle(context.WithoutCancel(ctx), estimate, used))
}

// settle charges what was used beyond the estimate, into debt if necessary, or returns what was not used.
func (t tokens) settle(ctx context.Context, estimate, used int64) (err error) {
	switch {
	case used > estimate:
		_, err = t.command(ctx, "CL.LIMIT", 0, used-estimate, "FORCE")
	case used < estimate:
		_, err = t.command(ctx, "CL.REFUND", 0, estimate-used)
	}
	return err
}

// command sends a command about requests and tokens. Both limits are in every call, and one of them with 0:
// a limit that is left out is forgotten.
func (t tokens) command(ctx context.Context, name string, requests, tokens int64, options ...any) ([]int64, error) {
	args := append([]any{name, t.key, "RATE", "60/m", "TAKE", requests, "WINDOW", "10000/h", "TAKE", tokens, "COMPACT"}, options...)
	return t.client.Do(ctx, args...).Int64Slice()
}

// left is how many tokens are left. CL.PEEK forgets nothing, so it may name one limit alone.
func (t tokens) left(ctx context.Context) (int64, error) {
	reply, err := t.client.Do(ctx, "CL.PEEK", t.key, "WINDOW", "10000/h", "COMPACT").Int64Slice()
	if err != nil {
		return 0, err
	}
	return reply[3], nil
}

func demo(ctx context.Context, client redis.UniversalClient) error {
	t := tokens{client, "llm:42"}
	if err := client.Del(ctx, t.key).Err(); err != nil { // so that it prints the same each time
		return err
	}
	for _, request := range []struct {
		what           string
		estimate, used int64
		dies           bool
	}{
		{what: "a summary", estimate: 2000, used: 2600},
		{what: "a translation", estimate: 2000, used: 1500},
		{what: "a caller that dies", estimate: 2000, dies: true},
		{what: "a report", estimate: 3000, used: 4500},
		{what: "a question", estimate: 100, used: 80},
	} {
		var err error
		if request.dies {
			_, err = t.command(ctx, "CL.LIMIT", 1, request.estimate)
		} else {
			err = t.call(ctx, request.estimate, func() (int64, error) { return request.used, nil })
		}
		var limited errLimited
		if errors.As(err, &limited) {
			fmt.Printf("%s: limited\n  Retry-After: %.0f\n", request.what, limited.retryAfter.Round(time.Second).Seconds())
			continue
		}
		if err != nil {
			return err
		}
		left, err := t.left(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %d estimated, %d used, %d left\n", request.what, request.estimate, request.used, left)
	}
	return nil
}
