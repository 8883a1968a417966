package spec_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/embedded"
	"redis-throttle/spec"
)

// With RENEW=1 it writes the replies of the package into the transcripts in place of those that differ.
func TestEmbeddedHostDoesWhatTheTranscriptsSay(t *testing.T) {
	t.Parallel()
	examples, err := spec.Examples()
	require.NoError(t, err)
	if os.Getenv("RENEW") == "1" {
		for _, e := range examples {
			renew(t, e.File+".txt", e.Renew(t, newHost()))
		}
		return
	}
	for _, e := range examples {
		t.Run(e.File+"/"+e.Rule, func(t *testing.T) {
			t.Parallel()
			e.Run(t, newHost())
		})
	}
}

// renew replaces lines of a file, which are counted from 1.
func renew(t *testing.T, file string, lines map[int]string) {
	t.Helper()
	if len(lines) == 0 {
		return
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	all := strings.Split(string(text), "\n")
	for number, line := range lines {
		t.Logf("%s:%d: %s\n    now %s", file, number, all[number-1], line)
		all[number-1] = line
	}
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(all, "\n")), 0o600))
}

// failures counts what Example.Run tells a test.
type failures struct {
	testing.TB
	texts []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

func TestAnExampleTellsItsFirstDifferenceAndIsRenewed(t *testing.T) {
	t.Parallel()
	e := spec.Example{File: "rate", Rule: "a rule", Steps: []spec.Step{
		{Text: "> CL.LIMIT k RATE 5/h", Line: 3, Kind: spec.Call, Words: strings.Fields("CL.LIMIT k RATE 5/h"), Want: "limited=1 remaining=4"},
		{Text: "> CL.LIMIT k RATE 5/h COMPACT", Line: 5, Kind: spec.Call, Words: strings.Fields("CL.LIMIT k RATE 5/h COMPACT"), Want: "1 2 3"},
		{Text: "= other 17", Line: 7, Kind: spec.Key, Words: []string{"other"}, Want: "17"},
	}}
	told := &failures{TB: t}
	e.Run(told, newHost())
	require.Len(t, told.texts, 1)
	assert.Contains(t, told.texts[0], "spec/rate.txt:3: a rule")
	assert.Equal(t, map[int]string{4: "limited=0 remaining=4", 6: "0 1 5 3 -1 1440000 720000 1 0 0", 7: "= other nothing"}, e.Renew(t, newHost()))
}

func newHost() *host {
	h := &host{waiters: map[string]embedded.Waiter{}, answers: map[embedded.Waiter]string{}}
	h.ResizeTop(spec.TopKeys)
	return h
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
