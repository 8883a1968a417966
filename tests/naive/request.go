package naive

import (
	"fmt"
	"strings"
	"time"
)

// Kind is what a limit is called in a command.
type Kind string

// The kinds of limits.
const (
	Rate   Kind = "RATE"
	Window Kind = "WINDOW"
	Fixed  Kind = "FIXED"
)

// Limit is one limit of a call.
type Limit struct {
	Kind   Kind
	Count  int64
	Period time.Duration
	// Burst is the capacity of a Rate; 0 means Count, as where a command leaves it out.
	Burst int64
}

// Options of Take.
type Options struct {
	Cost    int64
	UpTo    bool
	Strict  bool
	MaxWait time.Duration // 0 for none
}

// String shows a limit as a command has it.
func (l Limit) String() string {
	s := fmt.Sprintf("%s %d/%s", l.Kind, l.Count, Duration(l.Period))
	if l.Burst > 0 {
		s += fmt.Sprint(" BURST ", l.Burst)
	}
	return s
}

// Duration shows a length of time as a command has it, in ms.
func Duration(d time.Duration) string { return fmt.Sprint(d.Milliseconds(), "ms") }

// Words are the limits as a command has them.
func Words(limits []Limit) []string {
	var words []string
	for _, l := range limits {
		words = append(words, strings.Fields(l.String())...)
	}
	return words
}

// Words are the options as a command has them.
func (o Options) Words() []string {
	words := []string{"COST", fmt.Sprint(o.Cost)}
	if o.UpTo {
		words = append(words, "UPTO")
	}
	if o.Strict {
		words = append(words, "STRICT")
	}
	if o.MaxWait > 0 {
		words = append(words, "MAXWAIT", Duration(o.MaxWait))
	}
	return words
}
