package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit"
)

// The login page of the examples, attacked as those of the other languages.
func TestALoginPageStopsWhoGuessesAndNobodyElse(t *testing.T) {
	if addr == "" {
		t.Skip("it needs a server, as the examples do")
	}
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	page := loginPage(ratelimit.New(client, ratelimit.Options{}))
	post := func(address, kind, body string, fields ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		for i := 0; i < len(fields); i += 2 {
			r.Header.Set(fields[i], fields[i+1])
		}
		r.RemoteAddr = address + ":12345"
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		return w
	}
	const form = "application/x-www-form-urlencoded"
	login := func(user, password string, fields ...string) *httptest.ResponseRecorder {
		return post("203.0.113.77", form, url.Values{"user": {user}, "password": {password}}.Encode(), fields...)
	}
	retryAfter := func(w *httptest.ResponseRecorder) int {
		s, err := strconv.Atoi(w.Header().Get("Retry-After"))
		assert.NoError(t, err)
		return s
	}

	for n := 1; n <= 15; n++ { // each from another address, as it says
		forged := fmt.Sprintf("198.51.100.%d", n)
		w := login("dora", "guess", "X-Forwarded-For", forged, "Forwarded", "for="+forged, "X-Real-IP", forged, "CF-Connecting-IP", forged)
		assert.Equal(t, n <= 5, w.Code == http.StatusUnauthorized, "attempt %d: %d", n, w.Code)
		if n == 6 {
			assert.LessOrEqual(t, retryAfter(w), 180)
			assert.Contains(t, w.Header().Get("RateLimit"), `"address"`)
		}
	}
	banned := login("dora", "correct horse")
	assert.Equal(t, http.StatusTooManyRequests, banned.Code, "the password is not looked at")
	assert.Greater(t, retryAfter(banned), 15*60, "the tenth denial bans for an hour")
	for _, spelling := range []string{"Dora", "DORA", "dora ", " dORA", "\tdora\r\n"} {
		assert.Equal(t, http.StatusTooManyRequests, login(spelling, "correct horse").Code, "%q is the same account", spelling)
	}
	assert.Equal(t, http.StatusUnauthorized, login("\uff44ora", "correct horse").Code, "it is no account")
	assert.Equal(t, http.StatusOK, post("198.51.100.200", form, "user=dora&password=correct+horse").Code, "its owner is not locked out")

	for range 4 {
		assert.Equal(t, http.StatusUnauthorized, login("eve", "guess").Code)
	}
	assert.Equal(t, http.StatusOK, login("eve", "correct horse").Code)
	for range 5 {
		assert.Equal(t, http.StatusUnauthorized, login("eve", "guess").Code, "the right password forgets the attempts")
	}
	assert.Equal(t, http.StatusTooManyRequests, login("eve", "guess").Code)

	for i, body := range []string{"", "user", "user=%zz", "user=a;b", "user[]=ann", "user=" + strings.Repeat("x", 50_000), "user=}{", "user=%00", `{"user":`} {
		for j, kind := range []string{form, "application/json", "text/plain", "multipart/form-data", "multipart/form-data; boundary=x", ""} {
			w := post(fmt.Sprintf("192.0.%d.%d", i, j), kind, body)
			assert.Less(t, w.Code, 500, "%s: %.30q", kind, body)
			assert.NotEqual(t, http.StatusOK, w.Code)
		}
	}
}
