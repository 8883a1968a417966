// Six requests to a web server that allows five an hour, then jobs under limits of other kinds:
// go-redis and package ratelimit, which holds the middleware and the retry.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/keyby"
	"redis-throttle/ratelimit/leases"
	"redis-throttle/ratelimit/retry"
)

func main() {
	client, err := connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		err = serve(client)
	} else {
		err = demo(context.Background(), client)
	}
	if err != nil {
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
		// A limiter must not keep requests waiting for Redis.
		DialTimeout: time.Second, DialerRetries: 1, ReadTimeout: time.Second,
	}), nil
}

// serve serves the page until it is ended, with as many requests an hour as the second
// argument says.
func serve(client redis.UniversalClient) error {
	count := int64(5)
	if len(os.Args) > 2 {
		var err error
		if count, err = strconv.ParseInt(os.Args[2], 10, 64); err != nil {
			return err
		}
	}
	handler := limited(client, count)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/\n", listener.Addr())
	return http.Serve(listener, handler)
}

func demo(ctx context.Context, client redis.UniversalClient) error {
	for _, key := range []string{"http:127.0.0.1", "jobs", "{acme}", "{acme}:ann", "{acme}:bob", "exports"} { // so that it prints the same each time
		if err := client.Del(ctx, key).Err(); err != nil {
			return err
		}
	}

	for n := 1; n <= 6; n++ {
		response, err := get(limited(client, 5))
		if err != nil {
			return err
		}
		fmt.Printf("request %d: %d\n", n, response.StatusCode)
		for _, field := range []string{"RateLimit-Policy", "RateLimit", "Retry-After"} {
			if value := response.Header.Get(field); value != "" {
				fmt.Printf("  %s: %s\n", field, value)
			}
		}
	}

	nowhere := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1})
	defer nowhere.Close()
	response, err := get(limited(nowhere, 5))
	if err != nil {
		return err
	}
	fmt.Println("request without Redis:", response.StatusCode)

	for n := 1; n <= 2; n++ {
		if err := job(ctx, ratelimit.New(client, ratelimit.Options{}), n); err != nil {
			return err
		}
	}

	for _, user := range []string{"ann", "ann", "ann", "bob", "bob"} {
		if err := request(ctx, ratelimit.New(client, ratelimit.Options{}), user); err != nil {
			return err
		}
	}

	err = export(ctx, ratelimit.New(client, ratelimit.Options{}), 1, func(ctx context.Context) error {
		return export(ctx, ratelimit.New(client, ratelimit.Options{}), 2, func(ctx context.Context) error {
			return export(ctx, ratelimit.New(client, ratelimit.Options{}), 3, func(context.Context) error { return nil })
		})
	})
	var limited *ratelimit.LimitedError
	if !errors.As(err, &limited) {
		return fmt.Errorf("three exports at once: %w", err)
	}
	fmt.Println("export 3: no slot is free")
	return export(ctx, ratelimit.New(client, ratelimit.Options{}), 4, func(context.Context) error { return nil })
}

// limited is a handler that allows count requests an hour from each address.
func limited(client redis.UniversalClient, count int64) http.Handler {
	limited := httplimit.New(ratelimit.New(client, ratelimit.Options{}), httplimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(count, time.Hour)},
		Key:    keyby.Prefixed("http:", keyby.RemoteHost),
		Failures: httplimit.Failures{
			OnError: func(_ *http.Request, err error) { log.Print("no rate limit: ", err) },
		},
	})
	return limited(http.HandlerFunc(hello))
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }

// get is the response to GET / from a server with handler.
func get(handler http.Handler) (*http.Response, error) {
	server := httptest.NewServer(handler)
	defer server.Close()
	response, err := http.Get(server.URL)
	if err != nil {
		return nil, err
	}
	return response, response.Body.Close()
}

// job runs under a limit of one every two seconds, after as many attempts as it takes.
func job(ctx context.Context, limiter *ratelimit.Limiter, n int) error {
	attempts := 0
	return retry.Do(ctx, func(ctx context.Context) error {
		attempts++
		result, err := limiter.Limit(ctx, "jobs", ratelimit.Limits{ratelimit.Rate(1, 2*time.Second)}, 1)
		if err != nil {
			return err
		}
		if err := result.Err(); err != nil {
			return err // retry.Do waits, and calls again
		}
		fmt.Printf("job %d: done %s\n", n, map[bool]string{true: "at once", false: "after a wait"}[attempts == 1])
		return nil
	})
}

// request asks a user's limit and that of the user's organisation: both are charged or none.
// The hash tag {acme} has both in one slot of a cluster.
func request(ctx context.Context, limiter *ratelimit.Limiter, user string) error {
	keys := []ratelimit.Key{
		{Name: "{acme}:" + user, Limits: ratelimit.Limits{ratelimit.Rate(2, time.Hour)}},
		{Name: "{acme}", Limits: ratelimit.Limits{ratelimit.Rate(3, time.Hour)}},
	}
	result, err := limiter.Decide(ctx, ratelimit.Call{Keys: keys, Cost: 1})
	switch {
	case err != nil:
		return err
	case result.Limited:
		fmt.Printf("%s: limited by %s\n", user, result.Key)
	default:
		fmt.Printf("%s: allowed\n", user)
	}
	return nil
}

// export is one of two at once. The lease renews itself; when it is lost all the same, the
// context of the work ends.
func export(ctx context.Context, limiter *ratelimit.Limiter, n int, work func(context.Context) error) (err error) {
	lease, err := leases.Take(ctx, limiter, leases.Options{Key: "exports", Slots: 2, TTL: 30 * time.Second})
	if err != nil {
		return err
	}
	defer func() {
		if failed := lease.Release(ctx); ratelimit.IsOutage(failed) {
			log.Print("a slot stays taken for its TTL: ", failed)
		} else {
			err = errors.Join(err, failed)
		}
	}()
	fmt.Printf("export %d: begun\n", n)
	return work(lease.Context())
}
