// Six requests to a web server that allows five an hour, then jobs under limits of other kinds.
package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	options, err := rueidis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379"))
	if err != nil {
		return err
	}
	options.ConnWriteTimeout = time.Second // a limiter must not keep requests waiting for Redis
	options.Dialer.Timeout = time.Second
	var line line
	options.DialCtxFn = line.dial
	client, err := rueidis.NewClient(options) // which finds out whether the server is in a cluster
	if err != nil {
		return err
	}
	defer client.Close()
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		return serve(client)
	}
	return demo(ctx, client, &line)
}

// serve serves the page until it is ended, with as many requests an hour as the second
// argument says.
func serve(client rueidis.Client) error {
	count := int64(5)
	if len(os.Args) > 2 {
		var err error
		if count, err = strconv.ParseInt(os.Args[2], 10, 64); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/\n", listener.Addr())
	return http.Serve(listener, rateLimit(client, count, 3600, http.HandlerFunc(hello)))
}

func demo(ctx context.Context, client rueidis.Client, line *line) error {
	for _, key := range []string{"http:127.0.0.1", "jobs", "{acme}", "{acme}:ann", "{acme}:bob", "exports"} { // so that it prints the same each time
		if err := client.Do(ctx, client.B().Del().Key(key).Build()).Error(); err != nil {
			return err
		}
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

	for _, user := range []string{"ann", "ann", "ann", "bob", "bob"} {
		limiting, err := limitKeys(ctx, client, []keyLimit{{"{acme}:" + user, "RATE 2/h"}, {"{acme}", "RATE 3/h"}})
		switch {
		case err != nil:
			return err
		case limiting != "":
			fmt.Printf("%s: limited by %s\n", user, limiting)
		default:
			fmt.Printf("%s: allowed\n", user)
		}
	}

	export := func(n int, work func(renew func() error) error) error { // one of two at once
		return withSlot(ctx, client, "exports", 2, 30, func(renew func() error) error {
			fmt.Printf("export %d: begun\n", n)
			return work(renew)
		})
	}
	renews := func(renew func() error) error { return renew() }
	err := export(1, func(func() error) error {
		return export(2, func(func() error) error { return export(3, renews) })
	})
	if !errors.Is(err, errLimited) {
		return fmt.Errorf("three exports at once: %w", err)
	}
	fmt.Println("export 3: no slot is free")
	if err := export(4, renews); err != nil {
		return err
	}

	line.cut() // rueidis makes no client of a server that is not there
	response, err := get(handler)
	if err != nil {
		return err
	}
	fmt.Println("request without Redis:", response.StatusCode)
	return nil
}

// line is the way to the servers, until it is cut.
type line struct {
	mu    sync.Mutex
	isCut bool
	conns []net.Conn
}

func (l *line) dial(ctx context.Context, address string, dialer *net.Dialer, secure *tls.Config) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		address = "127.0.0.1:1"
	}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if secure != nil {
		conn = tls.Client(conn, secure)
	}
	l.conns = append(l.conns, conn)
	return conn, nil
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	for _, conn := range l.conns {
		_ = conn.Close()
	}
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
