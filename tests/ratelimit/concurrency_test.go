package ratelimit_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/leases"
	"redis-throttle/tests/server"
)

func TestALostLeaseEndsItsContext(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*server.Server){
		"somebody took it away": func(s *server.Server) { s.MustDo("DEL", "slots") },
		"the server is down":    (*server.Server).Kill,
		"the server hangs":      (*server.Server).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			client := s.Client(func(o *redis.Options) { o.ReadTimeout = time.Hour }) // the holder is told before a reply is given up
			lease, err := leases.Take(t.Context(), ratelimit.New(client, ratelimit.Options{}), leases.Options{Key: "slots", Slots: 1, TTL: 600 * time.Millisecond})
			require.NoError(t, err)
			lose(s)
			if name == "the server hangs" {
				defer s.Resume()
			}
			select {
			case <-lease.Context().Done():
			case <-time.After(time.Minute):
				t.Fatal("the holder was not told")
			}
			assert.ErrorIs(t, context.Cause(lease.Context()), leases.ErrLost)
		})
	}
}

// At most two requests of a tenant at a time, however they end.
func TestConcurrencyOfRequests(t *testing.T) {
	t.Parallel()
	redisServer := server.Start(t)
	client := redisServer.Client()
	begun, end := make(chan struct{}), make(chan struct{})
	handler := httplimit.NewConcurrency(ratelimit.New(client, ratelimit.Options{}), httplimit.ConcurrencyOptions{
		Slots:    2,
		Key:      func(r *http.Request) string { return r.Header.Get("Tenant") },
		Failures: httplimit.Failures{OnError: func(_ *http.Request, err error) { t.Error(err) }},
	})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-end
		_, _ = io.WriteString(w, "hello")
	}))
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	statuses := make(chan int, 10)
	ask := func(tenant string) {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, web.URL, nil)
		if assert.NoError(t, err) {
			request.Header.Set("Tenant", tenant)
			response, err := web.Client().Do(request)
			if assert.NoError(t, err) {
				response.Body.Close()
				statuses <- response.StatusCode
			}
		}
	}
	for range 2 {
		go ask("slots:7")
		<-begun
	}
	response, _ := get(t, web, "Tenant", "slots:7")
	assert.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	assert.Equal(t, "1", response.Header.Get("Retry-After"))
	go ask("slots:8") // somebody else
	<-begun
	go ask("") // nobody
	<-begun
	for range 4 {
		end <- struct{}{}
	}
	for range 4 {
		assert.Equal(t, http.StatusOK, <-statuses)
	}
	require.Eventually(t, func() bool {
		stats := client.PoolStats()
		return redisServer.MustDo("DBSIZE").Int == 0 && stats.IdleConns == stats.TotalConns
	}, 10*time.Second, 10*time.Millisecond, "all slots are free, and whoever gave one back knows it")
}
