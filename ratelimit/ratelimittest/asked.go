package ratelimittest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"redis-throttle/ratelimit"
)

// mostAsked is how many calls a Limiter remembers.
const mostAsked = 10_000

// Asked is a call that a Limiter was asked to decide.
type Asked struct {
	// At is the limiter's time when the call came.
	At time.Time
	// Call is the call as a value. Of commands that came by Process it is the zero Call.
	Call ratelimit.Call
	// Commands are the words that a server would have been sent: one command, except that a lease that waits for its
	// slot sends a second one. A call that is wrong in itself sends none.
	Commands [][]string
	// Done says that the call has its answer: Result and Err.
	Done   bool
	Result ratelimit.Result
	Err    error
}

// String is the commands as they would be typed into redis-cli, one a line.
func (a Asked) String() string {
	lines := make([]string, len(a.Commands))
	for i, words := range a.Commands {
		words = slices.Clone(words)
		for j, word := range words {
			if word == "" || strings.ContainsAny(word, " \"'\\\n\r\t") {
				words[j] = strconv.Quote(word)
			}
		}
		lines[i] = strings.Join(words, " ")
	}
	return strings.Join(lines, "\n")
}

// Asked is what the limiter was asked, in order of arrival: the last 10,000 calls.
func (l *Limiter) Asked() []Asked {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Asked, 0, len(s.asked))
	for i := range s.asked {
		r := s.asked[(s.oldest+i)%len(s.asked)]
		a := Asked{At: time.Unix(0, r.atNs).UTC(), Call: r.call, Done: r.done, Result: r.result, Err: r.err}
		for _, args := range r.commands {
			words := make([]string, len(args))
			for j, arg := range args {
				words[j] = string(appendWord(nil, arg))
			}
			a.Commands = append(a.Commands, words)
		}
		all = append(all, a)
	}
	return all
}

// record is what is kept of a call. server.mu guards it.
type record struct {
	atNs     int64
	call     ratelimit.Call
	commands [][]any
	first    [1][]any         // room for commands
	key      [1]ratelimit.Key // and for the keys of call
	done     bool
	result   ratelimit.Result
	err      error
}

// remember begins the record of a call. When there are too many it drops the oldest one.
func (s *server) remember(call ratelimit.Call) *record {
	r := &record{call: call}
	if call.Keys != nil {
		r.call.Keys = append(r.key[:0], call.Keys...)
	}
	r.commands = r.first[:0]
	s.mu.Lock()
	defer s.mu.Unlock()
	r.atNs = s.clock.wallNs()
	if len(s.asked) < mostAsked {
		s.asked = append(s.asked, r)
		return r
	}
	s.asked[s.oldest] = r
	s.oldest = (s.oldest + 1) % mostAsked
	return r
}

// note completes a record.
func (s *server) note(r *record, result ratelimit.Result, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.done, r.result, r.err = true, result, err
}

// recorder notes the calls that its client decides.
type recorder struct {
	s      *server
	client *ratelimit.Limiter
}

// ofRecord is the key of a context that holds the *record of its call.
type ofRecord struct{}

func (r recorder) Decide(ctx context.Context, call ratelimit.Call) (ratelimit.Result, error) {
	noted := r.s.remember(call)
	result, err := r.client.Decide(context.WithValue(ctx, ofRecord{}, noted), call)
	r.s.note(noted, result, err)
	return result, err
}
