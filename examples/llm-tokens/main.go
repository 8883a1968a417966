// An LLM gateway in three calls: admit, stream, settle. A user may start 60 requests a minute, use 10,000 tokens an
// hour and run two requests at the same time. How many tokens a request uses is known only afterwards. CL.MLIMIT
// charges an estimate and takes a slot, or neither. The same call again keeps the slot of a long stream. CL.SETTLE
// frees the slot and corrects the estimate, once, however often it is sent.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	client, err := connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	g := gateway{client: client, user: "42", slotTTL: 4 * time.Second}
	if len(os.Args) > 1 && os.Args[1] == "die" {
		g.admitAndDie(context.Background())
	}
	if err := demo(context.Background(), g); err != nil {
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

// gateway is what one user may use. Its keys share a hash tag, so that a cluster keeps them together.
type gateway struct {
	client redis.UniversalClient
	user   string
	// slotTTL is how long the slot of a caller that dies stays taken. Streams that last longer renew it.
	slotTTL time.Duration
}

func (g gateway) key(what string) string { return "llm:{" + g.user + "}:" + what }

// errLimited is what admit says of a request that was not sent.
type errLimited struct{ retryAfter time.Duration }

func (e errLimited) Error() string { return fmt.Sprint("limited, come back in ", e.retryAfter) }

// onKeys sends a command whose first key stands behind their number, which a client of a cluster has to be told.
func (g gateway) onKeys(ctx context.Context, words ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, words...)
	cmd.SetFirstKeyPos(2)
	_ = g.client.Process(ctx, cmd) // the command keeps its error
	return cmd
}

// admit charges one request and an estimate of its tokens, and takes a slot, or does nothing. Called again with the
// same id it keeps the slot and charges nothing.
func (g gateway) admit(ctx context.Context, id string, estimate int64) error {
	reply, err := g.onKeys(ctx, "CL.MLIMIT", 3, g.key("requests"), g.key("tokens"), g.key("running"),
		"RATE", "60/m", "NEXT", "WINDOW", "10000/h", "TAKE", estimate,
		"NEXT", "SLOTS", 2, "TTL", fmt.Sprint(g.slotTTL.Milliseconds(), "ms"), "ID", id, "COMPACT").Int64Slice()
	if err != nil {
		return err
	}
	if limited, retryAfter := reply[0] == 1, time.Duration(reply[4])*time.Millisecond; limited {
		return errLimited{retryAfter}
	}
	return nil
}

// settle frees the slot, and charges what was used beyond the estimate or returns what was not used. If it answers
// false, the request was settled before, or its slot has lapsed: the estimate stays charged.
func (g gateway) settle(ctx context.Context, id string, estimate, used int64) (settled bool, err error) {
	reply, err := g.onKeys(ctx, "CL.SETTLE", 2, g.key("tokens"), g.key("running"),
		"WINDOW", "10000/h", "TAKE", estimate, "USED", used, "NEXT", "SLOTS", "ID", id, "COMPACT").Int64Slice()
	return err == nil && reply[0] == 1, err
}

// call runs a request. stream is called with a function that keeps the slot; call it every third of the slot's time to
// live.
func (g gateway) call(ctx context.Context, id string, estimate int64, stream func(keep func() error) (used int64, err error)) error {
	if err := g.admit(ctx, id, estimate); err != nil {
		return err
	}
	used, err := stream(func() error { return g.admit(ctx, id, estimate) })
	// Settle also when the request was cancelled: what was used is a fact.
	_, settleErr := g.settle(context.WithoutCancel(ctx), id, estimate, used)
	return errors.Join(err, settleErr)
}

// left is how many tokens are left, and running how many requests hold a slot.
func (g gateway) left(ctx context.Context) (left, running int64, err error) {
	reply, err := g.client.Do(ctx, "CL.PEEK", g.key("tokens"), "WINDOW", "10000/h", "COMPACT").Int64Slice()
	if err != nil {
		return 0, 0, err
	}
	now := time.Now().UnixMilli()
	running, err = g.client.ZCount(ctx, g.key("running"), fmt.Sprint("(", now), "inf").Result()
	return reply[3], running, err
}

// admitAndDie is a caller that is killed amid its request. The test of this program lets a signal do it.
func (g gateway) admitAndDie(ctx context.Context) {
	if err := g.admit(ctx, "dies", 2000); err != nil {
		log.Fatal(err)
	}
	me, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = me.Kill()
	}
	log.Fatal(err)
}

func demo(ctx context.Context, g gateway) error {
	for _, key := range []string{"requests", "tokens", "running"} { // so that it prints the same each time
		if err := g.client.Del(ctx, g.key(key)).Err(); err != nil {
			return err
		}
	}
	say := func(what string) error {
		left, running, err := g.left(ctx)
		if err == nil {
			fmt.Printf("%s: %d tokens left, %d running\n", what, left, running)
		}
		return err
	}
	stream := func(used int64) func(func() error) (int64, error) {
		return func(keep func() error) (int64, error) { return used, errors.Join(keep(), say("  amid the stream")) }
	}
	for _, request := range []struct {
		id             string
		estimate, used int64
	}{{"summary", 2000, 2600}, {"translation", 2000, 1500}} {
		if err := g.call(ctx, request.id, request.estimate, stream(request.used)); err != nil {
			return err
		}
		if err := say(fmt.Sprintf("a %s, %d estimated and %d used", request.id, request.estimate, request.used)); err != nil {
			return err
		}
	}

	// A caller is killed: its slot is free when its time to live is over, and its estimate stays charged.
	if err := exec.CommandContext(ctx, os.Args[0], "die").Run(); err == nil {
		return errors.New("the caller that was to be killed lives")
	}
	if err := say("a caller that was killed, 2000 estimated"); err != nil {
		return err
	}
	for running := int64(1); running > 0; {
		time.Sleep(g.slotTTL / 10)
		var err error
		if _, running, err = g.left(ctx); err != nil {
			return err
		}
	}
	if err := say("when its slot has lapsed"); err != nil {
		return err
	}
	settled, err := g.settle(ctx, "dies", 2000, 100)
	if err != nil {
		return err
	}
	fmt.Println("settled too late:", settled)

	err = g.call(ctx, "report", 4500, stream(0))
	var limited errLimited
	if !errors.As(err, &limited) {
		return fmt.Errorf("a report: %w", err)
	}
	fmt.Printf("a report of 4500: limited\n  Retry-After: %.0f\n", limited.retryAfter.Round(time.Minute).Seconds())
	return nil
}
