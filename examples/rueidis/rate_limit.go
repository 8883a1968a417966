// Rate limiting with redis-throttle and rueidis, whose command builder has CL.THROTTLE:
// net/http middleware, and a retry.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// reply is what CL.THROTTLE answers.
type reply struct {
	limited          bool
	limit, remaining int64
	retryAfter       time.Duration // negative: not limited, or never possible
	resetAfter       time.Duration
}

// throttle asks for one unit of the limit of count units per period (seconds) at key.
func throttle(ctx context.Context, client rueidis.Client, key string, count, period int64) (reply, error) {
	command := client.B().ClThrottle().Key(key).MaxBurst(count - 1).CountPerPeriod(count).Period(period).Build()
	n, err := client.Do(ctx, command).AsIntSlice()
	if err != nil {
		return reply{}, err
	}
	if len(n) != 5 {
		return reply{}, fmt.Errorf("CL.THROTTLE answers %d", n)
	}
	return reply{n[0] == 1, n[1], n[2], time.Duration(n[3]) * time.Second, time.Duration(n[4]) * time.Second}, nil
}

// outageCodes begin the replies of a server that will decide the same call later, or that
// another server decides in its place.
var outageCodes = []string{"BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY", "TRYAGAIN"}

// isOutage reports whether err means that Redis is out of reach or in a state in which it
// does not decide. Anything else, such as a bad limit, is a mistake, which must not let
// everybody through.
func isOutage(err error) bool {
	if reply, ok := rueidis.IsRedisErr(err); ok {
		code, _, _ := strings.Cut(reply.Error(), " ")
		return slices.Contains(outageCodes, code) || strings.HasPrefix(reply.Error(), "ERR max number of clients")
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, rueidis.ErrNoSlot)
}

// rateLimit allows count requests per window (seconds) from each address to next; more
// are answered with 429.
func rateLimit(client rueidis.Client, count, window int64, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		got, err := throttle(r.Context(), client, "http:"+host, count, window)
		switch {
		case err == nil:
		case isOutage(err):
			log.Print("requests are not limited: ", err)
			next.ServeHTTP(w, r)
			return
		default:
			log.Print("the rate limit does not work: ", err)
			http.Error(w, "Internal server error", http.StatusInternalServerError)
			return
		}
		w.Header().Set("RateLimit-Policy", fmt.Sprintf(`"default";q=%d;w=%d`, count, window))
		if !got.limited {
			w.Header().Set("RateLimit", fmt.Sprintf(`"default";r=%d`, got.remaining))
			next.ServeHTTP(w, r)
			return
		}
		seconds := int64(got.retryAfter / time.Second)
		w.Header().Set("RateLimit", fmt.Sprintf(`"default";r=%d;t=%d`, got.remaining, seconds))
		w.Header().Set("Retry-After", fmt.Sprint(seconds))
		http.Error(w, "Too many requests", http.StatusTooManyRequests)
	})
}

var errLimited = errors.New("limited")

// retry calls until the reply is not limited. It pauses for as long as the reply says,
// plus a random time of up to 100 ms, 200 ms and so on, to 10 s: exponential backoff with
// full jitter.
func retry(ctx context.Context, attempts int, call func() (reply, error)) error {
	ceiling := 100 * time.Millisecond
	for attempt := 1; ; attempt++ {
		got, err := call()
		if err != nil || !got.limited {
			return err
		}
		if got.retryAfter < 0 || attempt == attempts {
			return errLimited
		}
		select {
		case <-time.After(got.retryAfter + rand.N(ceiling)):
		case <-ctx.Done():
			return ctx.Err()
		}
		ceiling = min(2*ceiling, 10*time.Second)
	}
}
