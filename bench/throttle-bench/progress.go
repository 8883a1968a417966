package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progress says what runs and how long is left: on a terminal in one line that is
// rewritten, elsewhere in a plain line now and then.
type progress struct {
	out      io.Writer
	terminal bool
	width    int
	now      func() time.Time

	planned float64 // seconds, all steps
	done    float64 // planned seconds of the steps that are over
	current float64 // planned seconds of the step that runs
	started time.Time
	printed time.Time
}

// plainInterval is how often a plain line is worth it.
const plainInterval = 10 * time.Second

func newProgress(out *os.File, plannedSeconds float64) *progress {
	p := &progress{out: out, planned: plannedSeconds, now: time.Now}
	if width, _, err := term.GetSize(int(out.Fd())); err == nil {
		p.terminal, p.width = true, width
		if width == 0 { // a terminal that does not say
			p.width = 80
		}
	}
	p.started = p.now()
	return p
}

// step says what begins now, and how long it is thought to take.
func (p *progress) step(label string, plannedSeconds float64) {
	p.done += p.current
	p.current = plannedSeconds
	line := fmt.Sprintf("%s left: %s", p.left(), label)
	switch {
	case p.terminal:
		fmt.Fprintf(p.out, "\r%.*s\x1b[K", p.width-1, line)
	case p.now().Sub(p.printed) >= plainInterval:
		fmt.Fprintln(p.out, line)
		p.printed = p.now()
	}
}

// left scales the plan by how it has fared so far.
func (p *progress) left() string {
	seconds := p.planned - p.done
	if p.done > 0 {
		seconds *= p.now().Sub(p.started).Seconds() / p.done
	}
	d := time.Duration(max(seconds, 0) * float64(time.Second)).Round(time.Second)
	return d.String()
}

// finish clears the line.
func (p *progress) finish() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
