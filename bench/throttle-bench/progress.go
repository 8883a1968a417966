package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress says what runs and how long is left: on a terminal in one line that is
// rewritten, elsewhere in a plain line now and then.
type progress struct {
	out              io.Writer
	terminal         bool
	now              func() time.Time
	steps, done      int
	started, printed time.Time
}

// plainInterval is how often a plain line is worth it.
const plainInterval = 10 * time.Second

func newProgress(steps int) *progress {
	stat, err := os.Stderr.Stat()
	terminal := err == nil && stat.Mode()&os.ModeCharDevice != 0
	return &progress{out: os.Stderr, terminal: terminal, now: time.Now, steps: steps, started: time.Now()}
}

// step says what begins now; what is left is thought to take as long as what is done.
func (p *progress) step(label string) {
	now, left := p.now(), "?"
	if p.done > 0 {
		left = (now.Sub(p.started) * time.Duration(p.steps-p.done) / time.Duration(p.done)).Round(time.Second).String()
	}
	p.done++
	switch {
	case p.terminal:
		fmt.Fprintf(p.out, "\r%.79s\x1b[K", left+" left: "+label)
	case now.Sub(p.printed) >= plainInterval:
		fmt.Fprintln(p.out, left+" left: "+label)
		p.printed = now
	}
}

// finish clears the line.
func (p *progress) finish() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
