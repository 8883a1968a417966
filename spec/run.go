package spec

import (
	"strings"
	"time"
)

// Host runs the commands under a clock that the transcript sets.
type Host interface {
	// SetTime sets the clock, forward or back. Whatever falls due on the way happens at its instant.
	SetTime(now time.Time)
	// Call makes a call and returns its reply in the form of Reply, or Waits if the caller has to wait.
	Call(caller string, words []string) string
	// Answer returns the reply to a caller that waited, or Waits if it still does. A host that needs time for a reply
	// waits for it unless stillWaits says that the transcript expects none.
	Answer(caller string, stillWaits bool) string
	// Holds says what a key holds, in the form of Holding.
	Holds(key string) string
}

// TopKeys is how many keys CL.TOP keeps on a Host.
const TopKeys = 10

// TB is what Run needs of a test.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Skip(args ...any)
}

// HasTimers is a Host whose callers in line may not see the clock move: their timers go by a clock that the transcript
// does not set.
type HasTimers interface{ TimersByOwnClock() bool }

// Run plays an example on a host that has no keys, up to the first step that differs: the rest mostly follows from it.
func (e Example) Run(t TB, h Host) {
	t.Helper()
	e.play(t, h, func(s Step, got string) bool {
		t.Errorf("spec/%s.txt:%d: %s\n    %s\n    want %s\n    got  %s", e.File, s.Line, e.Rule, s.Text, s.Want, got)
		return false
	})
}

// Renew plays an example and returns the lines of its file that differ, by their numbers from 1, as the host has them.
func (e Example) Renew(t TB, h Host) map[int]string {
	t.Helper()
	lines := map[int]string{}
	e.play(t, h, func(s Step, got string) bool {
		got = renewed(got, s.Want)
		if s.Kind == Call {
			lines[s.Line+1] = got
		} else {
			lines[s.Line] = strings.TrimSuffix(s.Text, s.Want) + got
		}
		return true
	})
	return lines
}

// play ends when differs returns false for a step whose reply is not that of the transcript.
func (e Example) play(t TB, h Host, differs func(s Step, got string) bool) {
	t.Helper()
	now, waiting := Start, 0
	h.SetTime(now)
	for _, s := range e.Steps {
		got := s.Want
		switch s.Kind {
		case Pass, Set:
			if own, ok := h.(HasTimers); ok && waiting > 0 && own.TimersByOwnClock() {
				t.Skip("callers in line wait by a clock that cannot be set here")
			}
			if now = now.Add(s.By); s.Kind == Set {
				now = s.At
			}
			h.SetTime(now)
		case Call:
			if got = h.Call(s.Caller, s.Words); got == Waits {
				waiting++
			}
		case Answer:
			if got = h.Answer(s.Caller, s.Want == Waits); got != Waits {
				waiting--
			}
		case Key:
			got = h.Holds(s.Words[0])
		}
		if !agrees(got, s.Want) && !differs(s, got) {
			return
		}
	}
}

// renewed is a reply with the fields alone that the transcript names, or all of it if one is missing or it names none.
func renewed(got, want string) string {
	has := map[string]string{}
	for _, field := range tokens(got) {
		name, _, _ := strings.Cut(field, "=")
		has[name] = field
	}
	var fields []string
	for _, field := range tokens(want) {
		name, _, named := strings.Cut(field, "=")
		if !named || has[name] == "" {
			return got
		}
		fields = append(fields, has[name])
	}
	return strings.Join(fields, " ")
}

// agrees compares a reply with what the transcript says. Fields that it names are compared, others are not.
func agrees(got, want string) bool {
	wanted := tokens(want)
	if !strings.Contains(wanted[0], "=") {
		return got == want
	}
	has := map[string]bool{}
	for _, field := range tokens(got) {
		has[field] = true
	}
	for _, field := range wanted {
		if !has[field] {
			return false
		}
	}
	return true
}

// tokens splits a reply at the spaces that are in no brackets.
func tokens(text string) (all []string) {
	depth, from := 0, 0
	for i, c := range text {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ' ' && depth == 0:
			all, from = append(all, text[from:i]), i+1
		}
	}
	return append(all, text[from:])
}
