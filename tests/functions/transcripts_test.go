// Package functions tests the library of functions on servers without the module, and beside it.
package functions_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/embedded"
	"redis-throttle/spec"
	"redis-throttle/tests/clock"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// TestFunctionsDoWhatTheTranscriptsSay runs package spec on a server without the module. An example is skipped where a
// function says that it needs the module.
func TestFunctionsDoWhatTheTranscriptsSay(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	examples, err := spec.Examples()
	require.NoError(t, err)
	c := clock.New(t, spec.Start.UnixNano())
	s := c.Start(server.WithoutModule())
	kit.LoadFunctions(t, s)
	v := s.MustDo("SCRIPT", "LOAD", kit.Script(t))
	for name, as := range map[string]func([]string) []string{
		"functions":         kit.AsFunction,
		"without shortcuts": kit.AsFunction,
		"scripts":           func(words []string) []string { return kit.AsScript(v.Text, words) },
	} {
		t.Run(name, func(t *testing.T) {
			library := kit.Library(t)
			if name == "without shortcuts" {
				library = replaced(t, library, "local SHORTCUTS = true", "local SHORTCUTS = false")
			}
			s.MustDo("FUNCTION", "LOAD", "REPLACE", library)
			ran := 0
			for _, e := range examples {
				t.Run(e.File+"/"+e.Rule, func(t *testing.T) {
					c.Set(spec.Start.UnixNano())
					s.MustDo("FLUSHALL")
					e.Run(t, &host{t: t, clock: c, server: s, as: as})
					ran++
				})
			}
			assert.Greater(t, ran, len(examples)*3/4, "what needs the module is the smaller part")
		})
	}
}

// replaced is a text in which another one, which it has, gives place.
func replaced(t *testing.T, text, old, new string) string {
	t.Helper()
	require.Contains(t, text, old)
	return strings.Replace(text, old, new, 1)
}

// Most calls take a shortcut, the first and the second one on a key: a library that decides no other calls decides
// them.
func TestMostCallsTakeAShortcut(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	s := server.Start(t, server.WithoutModule())
	longer := "local reply = c.decide(c, "
	s.MustDo("FUNCTION", "LOAD", replaced(t, kit.Library(t), longer, "if true then raise('ERR the longer way') end\n  "+longer))
	for i, words := range []string{"RATE 2/h", "RATE 2/h RATE 9/d COMPACT", "WINDOW 2/h", "FIXED 2/d COMPACT", "FIXED 2/y TZ Europe/Berlin", "FIXED 2/h FIRST"} {
		for range 3 { // the last one is denied
			v := s.Do(fcall(fmt.Sprintf("CL.LIMIT k%d %s", i, words))...)
			assert.False(t, v.IsError(), "%s: %s", words, v.Text)
		}
	}
	for _, words := range []string{"WINDOW 2/h WINDOW 9/d", "FIXED 2/h STRICT", "RATE 2/h COST 3", "FIXED 0/h", "WINDOW 2/h EACH"} {
		assert.Contains(t, s.Do(fcall("CL.LIMIT other "+words)...).Text, "the longer way", words)
	}
}

// host is a server without the module.
type host struct {
	t      *testing.T
	clock  *clock.Clock
	now    time.Time
	server *server.Server
	as     func([]string) []string
}

func (h *host) SetTime(now time.Time) {
	h.now = now
	h.clock.Set(now.UnixNano())
}

func (h *host) Call(_ string, words []string) string {
	h.t.Helper()
	if words[0] != "DEL" {
		if !kit.ServerCounts(words) {
			h.t.Skip("the server counts the keys of functions")
		}
		words = h.as(words)
	}
	v := h.server.Do(words...)
	if kit.NeedsModule(v) {
		h.t.Skip(v.Text)
	}
	return spec.Reply(plain(v))
}

func (h *host) Answer(string, bool) string { return spec.Waits }

func (h *host) Holds(key string) string { return kit.Holds(h.t, h.server, h.now, key) }

// plain is a reply in the form that spec.Reply takes. An array that begins with a text is of names and values.
func plain(v resp.Value) any {
	switch {
	case v.IsError():
		return errors.New(v.Text)
	case v.Kind == resp.Integer:
		return v.Int
	case v.Kind == resp.Array:
		elems := make([]any, len(v.Elems))
		for i, e := range v.Elems {
			elems[i] = plain(e)
		}
		if len(elems) > 0 && v.Elems[0].Kind == resp.BulkString {
			return embedded.Map(elems)
		}
		return elems
	case v.IsNull:
		return fmt.Sprint(nil)
	}
	return v.Text
}
