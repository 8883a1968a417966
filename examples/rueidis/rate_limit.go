// Rate limiting with redis-throttle and rueidis, whose command builder has CL.THROTTLE:
// net/http middleware, a retry, several keys, slots.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
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
		case <-time.After(got.retryAfter + mathrand.N(ceiling)):
		case <-ctx.Done():
			return ctx.Err()
		}
		ceiling = min(2*ceiling, 10*time.Second)
	}
}

// keyLimit is a key and its limits, in words.
type keyLimit struct{ key, limits string }

// limitKeys asks the limits of several keys with CL.MLIMIT: all keys are charged or none. It
// returns the key whose limit the call would exceed, or "". In a cluster the keys need a hash tag in
// common, such as {acme}: rueidis panics without.
func limitKeys(ctx context.Context, client rueidis.Client, limits []keyLimit) (limiting string, err error) {
	var keys, words []string
	for _, l := range limits {
		keys = append(keys, l.key)
		words = append(append(words, "NEXT"), strings.Fields(l.limits)...)
	}
	words = append(words[1:], "COMPACT")
	const limited, key, fields = 0, 10, 11 // their places
	n, err := client.Do(ctx, client.B().Arbitrary("CL.MLIMIT", strconv.Itoa(len(keys))).Keys(keys...).Args(words...).Build()).AsIntSlice()
	switch {
	case err != nil:
		return "", err
	case len(n) < fields || n[key] < 1 || n[key] > int64(len(keys)):
		return "", fmt.Errorf("CL.MLIMIT answers %d", n)
	case n[limited] == 0:
		return "", nil
	}
	return keys[n[key]-1], nil
}

var errLeaseLost = errors.New("the lease has lapsed: the slot may be somebody else's")

// withSlot holds one of the slots of key while work runs, or returns errLimited. If the process
// dies, the slot is free after ttl (seconds). Work that may take longer calls renew every now
// and then, and stops when that fails.
func withSlot(ctx context.Context, client rueidis.Client, key string, slots, ttl int64, work func(renew func() error) error) (err error) {
	id, lasts := rand.Text(), strconv.FormatInt(ttl, 10)+"s"
	limited := func(command string, args ...string) (bool, error) {
		args = append(args, "TTL", lasts, "ID", id, "COMPACT")
		n, err := client.Do(ctx, client.B().Arbitrary(command).Keys(key).Args(args...).Build()).AsIntSlice()
		if err == nil && len(n) < 6 {
			err = fmt.Errorf("%s answers %d", command, n)
		}
		return err == nil && n[0] == 1, err
	}
	if full, err := limited("CL.LEASE", "SLOTS", strconv.FormatInt(slots, 10)); err != nil {
		return err
	} else if full {
		return errLimited
	}
	defer func() {
		ctx := context.WithoutCancel(ctx) // which may be why the work is over
		failed := client.Do(ctx, client.B().Arbitrary("CL.RELEASE").Keys(key).Args("ID", id).Build()).Error()
		if failed != nil && isOutage(failed) {
			log.Printf("a slot of %s stays taken for %s: %v", key, lasts, failed)
			failed = nil
		}
		err = errors.Join(err, failed)
	}()
	return work(func() error {
		lost, err := limited("CL.RENEW")
		if lost {
			return errLeaseLost
		}
		return err
	})
}
