// Six requests to a web server that allows five an hour, then two jobs under a limit:
// go-redis and package ratelimit, which holds the middleware and the retry.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
)

func main() {
	if err := demo(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func demo(ctx context.Context) error {
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379"))
	if err != nil {
		return err
	}
	// A limiter must not keep requests waiting for Redis.
	options.DialTimeout, options.DialerRetries, options.ReadTimeout = time.Second, 1, time.Second
	client := redis.NewClient(options)
	defer client.Close()
	if err := client.Del(ctx, "http:127.0.0.1", "jobs").Err(); err != nil { // so that it prints the same each time
		return err
	}

	for n := 1; n <= 6; n++ {
		response, err := get(limited(client))
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
	response, err := get(limited(nowhere))
	if err != nil {
		return err
	}
	fmt.Println("request without Redis:", response.StatusCode)

	for n := 1; n <= 2; n++ {
		if err := job(ctx, ratelimit.New(client), n); err != nil {
			return err
		}
	}
	return nil
}

// limited is a handler that allows five requests an hour from each address.
func limited(client *redis.Client) http.Handler {
	return ratelimit.Middleware{
		Limiter: ratelimit.New(client),
		Limits:  ratelimit.Limits{ratelimit.Rate(5, time.Hour)},
		Key:     func(r *http.Request) string { return "http:" + ratelimit.RemoteHost(r) },
		OnError: func(_ *http.Request, err error) { log.Print("requests are not limited: ", err) },
	}.Wrap(http.HandlerFunc(hello))
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
	return ratelimit.Retry(ctx, func(ctx context.Context) error {
		attempts++
		result, err := limiter.Limit(ctx, "jobs", ratelimit.Limits{ratelimit.Rate(1, 2*time.Second)}).Result()
		if err != nil {
			return err
		}
		if err := result.Err(); err != nil {
			return err // Retry waits, and calls again
		}
		fmt.Printf("job %d: done %s\n", n, map[bool]string{true: "at once", false: "after a wait"}[attempts == 1])
		return nil
	})
}
