package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/keyby"
)

func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Second, ContextTimeoutEnabled: true})
	defer client.Close()

	limited := httplimit.New(ratelimit.New(client, ratelimit.Options{}), httplimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(2, time.Hour).Named("hourly")},
		Key:    func(r *http.Request) string { return "api:" + keyby.RemoteHost(r) },
	})
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })
	handler := limited(hello) // http.ListenAndServe("127.0.0.1:8080", handler)

	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"), w.Header().Get("RateLimit")[:len(`"hourly";r=0`)])
	}
	// Output:
	// 200 "hourly";q=2;w=3600 "hourly";r=1
	// 200 "hourly";q=2;w=3600 "hourly";r=0
	// 429 "hourly";q=2;w=3600 "hourly";r=0
}

// Orders are dearer than the rest, and a plan has more of it.
func ExampleNew_routes() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	plans := map[string]ratelimit.Limits{"gold": {ratelimit.Rate(1000, time.Hour).Named("gold")}}
	limited := httplimit.New(ratelimit.New(client, ratelimit.Options{}), httplimit.Options{
		Key:    keyby.Prefixed("customer:", keyby.Header("X-Tenant")),
		Limits: ratelimit.Limits{ratelimit.Rate(100, time.Hour)},
		Routes: []httplimit.Route{
			{Pattern: "POST /orders", Limits: ratelimit.Limits{ratelimit.Rate(10, time.Hour).Named("orders")}},
		},
		LimitsFor:  func(r *http.Request) ratelimit.Limits { return plans[r.Header.Get("X-Plan")] },
		XRateLimit: httplimit.XRateLimitSeconds,
	})
	handler := limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	for _, request := range []struct{ method, path, tenant, plan string }{
		{"GET", "/", "7", ""}, {"GET", "/", "8", "gold"}, {"POST", "/orders", "7", ""},
	} {
		r := httptest.NewRequest(request.method, request.path, nil)
		r.Header.Set("X-Tenant", request.tenant)
		r.Header.Set("X-Plan", request.plan)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Header().Get("RateLimit-Policy"), w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// "default";q=100;w=3600 99
	// "gold";q=1000;w=3600 999
	// "orders";q=10;w=3600 9
}

// A login page. An address that guesses the password of an account is banned from it for an hour, with the tenth
// attempt within an hour that is limited. All addresses together have 300 attempts a day at one account; nobody can
// have that banned for its owner alone.
func ExampleNew_login() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	login := loginPage(ratelimit.New(client, ratelimit.Options{}))

	attempt := func(user, address string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(url.Values{"user": {user}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.RemoteAddr = address + ":12345"
		w := httptest.NewRecorder()
		login.ServeHTTP(w, r)
		return w
	}
	for n := 1; n <= 16; n++ {
		w := attempt("Ann", "203.0.113.7")
		if n == 5 || n == 6 || n == 16 {
			after, _ := time.ParseDuration(w.Header().Get("Retry-After") + "s")
			fmt.Println(n, w.Code, after.Round(time.Minute))
		}
	}
	fmt.Println("from elsewhere:", attempt("ann", "198.51.100.1").Code)
	// Output:
	// 5 401 0s
	// 6 429 3m0s
	// 16 429 1h0m0s
	// from elsewhere: 401
}

func loginPage(limiter *ratelimit.Limiter) http.Handler {
	account := func(r *http.Request) string { return "{login:" + fold(r.PostFormValue("user")) + "}" }
	mine := func(r *http.Request) string { return account(r) + ":" + keyby.RemoteHost(r) }
	limited := httplimit.New(limiter, httplimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(5, 15*time.Minute).Named("address")},
		Key:    mine,
		And:    []httplimit.Part{{Limits: ratelimit.Limits{ratelimit.Rate(300, 24*time.Hour).Named("account")}, Key: account}},
		Ban:    time.Hour, BanAfter: "10/1h",
	})
	return limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isRight(fold(r.PostFormValue("user")), r.PostFormValue("password")) {
			http.Error(w, "wrong user or password", http.StatusUnauthorized)
			return
		}
		_, _ = limiter.Reset(r.Context(), mine(r)) // in an outage the attempts stay
		fmt.Fprintln(w, "welcome")
	}))
}

func isRight(account, password string) bool { return account != "" && password == "correct horse" } // yours

// fold makes Ann, ANN and "ann " one account. Here nobody's account has other letters than those of ASCII. Where some
// do, spell them one way first, by norm.NFKC of golang.org/x/text, or one account has limits for each of its spellings.
func fold(user string) string {
	user = strings.ToLower(strings.TrimSpace(user))
	if len(user) > 200 || strings.ContainsFunc(user, func(r rune) bool { return r > unicode.MaxASCII }) {
		return ""
	}
	return user
}

// Five requests of a tenant at a time.
func ExampleNewConcurrency() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	slots := httplimit.NewConcurrency(ratelimit.New(client, ratelimit.Options{}), httplimit.ConcurrencyOptions{
		Slots: 5,
		Key:   func(r *http.Request) string { return "running:" + r.Header.Get("X-Tenant") },
	})
	handler := slots(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Code, w.Body)
	// Output: 200 hello
}
