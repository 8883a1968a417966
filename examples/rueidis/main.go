// Six requests to a web server that allows five an hour, then two jobs under a limit.
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

	"github.com/redis/rueidis"
)

func main() {
	if err := demo(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func demo(ctx context.Context) error {
	options, err := rueidis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379"))
	if err != nil {
		return err
	}
	options.ConnWriteTimeout = time.Second // a limiter must not keep requests waiting for Redis
	client, err := rueidis.NewClient(options)
	if err != nil {
		return err
	}
	defer client.Close()
	// So that it prints the same each time.
	if err := client.Do(ctx, client.B().Del().Key("http:127.0.0.1", "jobs").Build()).Error(); err != nil {
		return err
	}

	const count, window = 5, 3600
	handler := rateLimit(client, count, window, http.HandlerFunc(hello))
	for n := 1; n <= 6; n++ {
		response, err := get(handler)
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

	for n := 1; n <= 2; n++ {
		attempts := 0
		err := retry(ctx, 10, func() (reply, error) {
			attempts++
			return throttle(ctx, client, "jobs", 1, 2)
		})
		if err != nil {
			return err
		}
		fmt.Printf("job %d: done %s\n", n, map[bool]string{true: "at once", false: "after a wait"}[attempts == 1])
	}

	client.Close() // rueidis makes no client of a server that is not there
	response, err := get(handler)
	if err != nil {
		return err
	}
	fmt.Println("request without Redis:", response.StatusCode)
	return nil
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
