package spec_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/embedded"
	"redis-throttle/spec"
)

func TestEmbeddedHostDoesWhatTheTranscriptsSay(t *testing.T) {
	t.Parallel()
	examples, err := spec.Examples()
	require.NoError(t, err)
	for _, e := range examples {
		t.Run(e.File+"/"+e.Rule, func(t *testing.T) {
			t.Parallel()
			e.Run(t, &host{waiters: map[string]embedded.Waiter{}, answers: map[embedded.Waiter]string{}})
		})
	}
}

// host is an embedded.Host whose clock a transcript sets.
type host struct {
	embedded.Host
	now     time.Time
	waiters map[string]embedded.Waiter
	answers map[embedded.Waiter]string
}

// SetTime lets everything happen that falls due on the way.
func (h *host) SetTime(now time.Time) {
	for {
		next, ok := h.Next()
		if !ok || next > now.UnixNano() {
			break
		}
		h.wake(max(next, h.now.UnixNano()))
	}
	h.now = now
	h.wake(now.UnixNano())
}

func (h *host) wake(nowNs int64) {
	h.now = time.Unix(0, nowNs)
	for _, a := range h.Wake(nowNs) {
		h.answers[a.Waiter] = show(a.Reply)
	}
}

func (h *host) Call(caller string, words []string) string {
	if words[0] == "DEL" { // the one command of servers that transcripts use
		existed := h.Get(h.now.UnixNano(), 0, words[1]) != nil
		h.Delete(0, words[1])
		h.wake(h.now.UnixNano())
		return map[bool]string{true: "1", false: "0"}[existed]
	}
	call := embedded.Call{NowNs: h.now.UnixNano(), MayBlock: true}
	for _, word := range words {
		call.Words = append(call.Words, []byte(word))
	}
	r := h.Do(call)
	if r.Waiter != 0 {
		h.waiters[caller] = r.Waiter
		h.wake(h.now.UnixNano())
		return spec.Waits
	}
	text := show(r)
	h.wake(h.now.UnixNano())
	return text
}

func (h *host) Answer(caller string, _ bool) string {
	if text, ok := h.answers[h.waiters[caller]]; ok {
		return text
	}
	return spec.Waits
}

func (h *host) Holds(name string) string {
	key := h.Get(h.now.UnixNano(), 0, name)
	if key == nil {
		return spec.Nothing
	}
	var leases []spec.Lease
	for _, l := range key.Leases {
		leases = append(leases, spec.Lease{ID: l.ID, LapsesMs: int64(l.Score)})
	}
	return spec.Holding(h.now, string(key.Value), leases, key.ExpireAtMs)
}

func show(r embedded.Reply) string {
	if r.Error != "" {
		return spec.Reply(errors.New(r.Error))
	}
	return spec.Reply(r.Value())
}
