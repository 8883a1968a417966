package ratelimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/tests/server"
)

// A page of another origin reads how much is left, and after a 429 when it may ask again. Tried in Chromium, where it
// is installed.
func TestAPageOfAnotherOriginReadsWhenItMayAskAgain(t *testing.T) {
	t.Parallel()
	const chromium = "/usr/bin/chromium"
	if _, err := os.Stat(chromium); err != nil {
		t.Skip("there is no Chromium")
	}
	limited := httplimit.New(ratelimit.New(server.Start(t).Client(), ratelimit.Options{}), httplimit.Options{
		Limits: ratelimit.Limits{ratelimit.Window(1, time.Hour)}, Key: func(*http.Request) string { return "k" },
	})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	// What adds the fields of CORS comes first, so that they are on a 429, too, and exposes those of limits.
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Allow-Headers", "X-Own")
		w.Header().Set("Access-Control-Expose-Headers", "RateLimit-Policy, RateLimit, Retry-After")
		limited.ServeHTTP(w, r)
	}))
	t.Cleanup(api.Close)

	told := make(chan string, 1)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/told":
			said, _ := url.QueryUnescape(r.URL.RawQuery)
			select {
			case told <- said:
			default:
			}
		case "/":
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, `<script>(async () => { let told = ''; for (let i = 0; i < 2; i++) {
				try { const r = await fetch('%s', { headers: { 'X-Own': '1' } }); told += [r.status, r.headers.get('RateLimit'), r.headers.get('Retry-After')] + '; ' } catch (e) { told += e + '; ' }
			} await fetch('/told?' + encodeURIComponent(told)) })()</script>`, api.URL)
		}
	}))
	t.Cleanup(page.Close)

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // bounds a hang
	defer cancel()
	home, err := os.MkdirTemp("", "chromium-")
	require.NoError(t, err)
	browser := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir="+home,
		"--remote-debugging-port=0", page.URL)
	require.NoError(t, browser.Start())
	over := make(chan error, 1)
	go func() { over <- browser.Wait() }()
	select {
	case said := <-told:
		assert.Equal(t, `200,"default";r=0;t=3600,; 429,"default";r=0;t=3600,3600; `, said)
		cancel()
		<-over
	case err := <-over:
		t.Errorf("Chromium ended: %v", err)
	}
	// Its children may write a moment longer.
	require.Eventually(t, func() bool { return os.RemoveAll(home) == nil }, time.Minute, 10*time.Millisecond)
}
