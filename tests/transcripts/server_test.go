// Package transcripts runs the transcripts of package spec on a server with the module under a clock that stands still,
// and on throttle-dev.
package transcripts

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/embedded"
	"redis-throttle/spec"
	"redis-throttle/tests/clock"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// patience ends a hang. Nothing waits for as long in a test that passes.
const patience = 30 * time.Second

func TestServerDoesWhatTheTranscriptsSay(t *testing.T) {
	t.Parallel()
	examples, err := spec.Examples()
	require.NoError(t, err)
	c := clock.New(t, spec.Start.UnixNano())
	s := c.Start(server.ModuleArgs("top", strconv.Itoa(spec.TopKeys)))
	for _, protocol := range []string{"2", "3"} {
		for _, e := range examples {
			t.Run("RESP"+protocol+"/"+e.File+"/"+e.Rule, func(t *testing.T) {
				c.Set(spec.Start.AddDate(0, 0, -1).UnixNano())
				s.MustDo("CL.TOP") // both have forgotten by Start what the last example counted
				s.MustDo("CL.TOP", "SHADOW")
				c.Set(spec.Start.UnixNano())
				h := &host{t: t, clock: c, server: s, protocol: protocol, conns: map[string]*resp.Conn{}, answers: map[string]chan string{}}
				require.Eventually(t, func() bool { return h.waiting() == 0 }, patience, time.Millisecond, "the callers of the last example have left")
				s.MustDo("FLUSHALL") // not before: they would be let in
				e.Run(t, h)
			})
		}
	}
}

// host is a server. Each caller of a transcript has a connection of its own.
type host struct {
	t        *testing.T
	clock    *clock.Clock
	now      time.Time
	server   *server.Server
	protocol string
	conns    map[string]*resp.Conn
	answers  map[string]chan string // to callers that have a name: only they may have to wait
}

func (h *host) TimersByOwnClock() bool { return !h.server.Program.IsDev() }

func (h *host) SetTime(now time.Time) {
	h.now = now
	h.clock.Pass(now.UnixNano())
}

func (h *host) Call(caller string, words []string) string {
	h.t.Helper()
	c := h.conn(caller)
	if caller == "" {
		v, err := c.Do(words...)
		require.NoError(h.t, err)
		return h.show(v)
	}
	waiting := h.waiting()
	answer := make(chan string, 1)
	h.answers[caller] = answer
	require.NoError(h.t, c.Send(words...))
	require.NoError(h.t, c.Flush())
	go func() {
		v, err := c.Receive()
		if err != nil {
			v = resp.Value{Kind: resp.Error, Text: err.Error()}
		}
		answer <- h.show(v)
	}()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		select {
		case text := <-answer:
			return text
		default:
			if h.waiting() > waiting {
				return spec.Waits
			}
		}
	}
	return "neither a reply nor a place in line"
}

// waiting is how many callers stand in line.
func (h *host) waiting() int {
	h.t.Helper()
	info := h.server.Info("throttle")
	n := 0
	for _, field := range []string{"throttle_waiting", "throttle_leases_waiting"} {
		some, err := strconv.Atoi(info[field])
		require.NoError(h.t, err)
		n += some
	}
	return n
}

func (h *host) Answer(caller string, stillWaits bool) string {
	h.t.Helper()
	if stillWaits {
		h.waiting() // whatever the server had to say by now comes before this reply
		select {
		case text := <-h.answers[caller]:
			return text
		default:
			return spec.Waits
		}
	}
	select {
	case text := <-h.answers[caller]:
		return text
	case <-time.After(patience):
		return spec.Waits
	}
}

func (h *host) conn(caller string) *resp.Conn {
	h.t.Helper()
	if h.conns[caller] == nil {
		c, err := resp.Dial(h.server.Addr())
		require.NoError(h.t, err)
		h.t.Cleanup(func() { _ = c.Close() })
		_, err = c.Do("HELLO", h.protocol)
		require.NoError(h.t, err)
		h.conns[caller] = c
	}
	return h.conns[caller]
}

func (h *host) Holds(key string) string { return kit.Holds(h.t, h.server, h.now, key) }

func (h *host) show(v resp.Value) string { return spec.Reply(h.plain(v)) }

// plain is a reply in the form that spec.Reply takes. RESP2 has names and values in an array, where RESP3 has a map.
func (h *host) plain(v resp.Value) any {
	switch {
	case v.IsError():
		return errors.New(v.Text)
	case v.Kind == resp.Integer:
		return v.Int
	case v.Kind == resp.Array || v.Kind == resp.Map:
		elems := make([]any, len(v.Elems))
		for i, e := range v.Elems {
			elems[i] = h.plain(e)
		}
		if v.Kind == resp.Map || h.protocol == "2" && hasNames(v) {
			return embedded.Map(elems)
		}
		return elems
	case v.IsNull:
		return fmt.Sprint(nil)
	}
	return v.Text
}

func hasNames(v resp.Value) bool {
	for i := 0; i < len(v.Elems); i += 2 {
		if v.Elems[i].Kind != resp.BulkString {
			return false
		}
	}
	return len(v.Elems) > 0 && len(v.Elems)%2 == 0
}
