package naive

import (
	"fmt"
	"strings"
	"time"

	"redis-throttle/internal/civil"
)

// Kind is what a limit is called in a command.
type Kind string

// The kinds of limits.
const (
	Rate   Kind = "RATE"
	Window Kind = "WINDOW"
	Fixed  Kind = "FIXED"
	First  Kind = "FIXED ... FIRST"
	// Denials is how many calls were denied (BAN ... AFTER), which a key keeps like a limit.
	Denials Kind = "AFTER"
)

// Limit is one limit of a call.
type Limit struct {
	Kind   Kind
	Count  int64
	Period time.Duration
	// Burst is the capacity of a Rate; 0 means Count, as where a command leaves it out.
	Burst int64
	// Offset is by how much the windows of a Fixed begin later.
	Offset time.Duration
	// Calendar is the windows of a Fixed, in place of Period and Offset.
	Calendar *civil.Windows
}

// id tells apart what is kept of the limits of one kind.
func (l Limit) id() string {
	if l.Kind == Fixed {
		return l.windows().id()
	}
	return l.Period.String()
}

// Options of Take.
type Options struct {
	Cost    int64
	UpTo    bool
	Strict  bool
	Force   bool
	MaxWait time.Duration // 0 for none
	Ban     time.Duration // 0 for none
	After   After         // of which denial the ban begins
	Terms   []Terms       // of the limits, in their order
	denied  bool          // by something other than the limits
}

// After is how many calls have to be denied in a period that begins with the first of them. Without a count it is one.
type After struct {
	Count  int64
	Period time.Duration
}

// String shows a limit as a command has it.
func (l Limit) String() string {
	kind, words, _ := strings.Cut(string(l.Kind), " ... ")
	if l.Calendar != nil {
		return fmt.Sprintf("%s %d/%s", kind, l.Count, l.Calendar.Words())
	}
	s := fmt.Sprintf("%s %d/%s %s", kind, l.Count, Duration(l.Period), words)
	if l.Burst > 0 {
		s += fmt.Sprint(" BURST ", l.Burst)
	}
	if l.Offset > 0 {
		s += fmt.Sprint(" OFFSET ", Duration(l.Offset))
	}
	return s
}

// Duration shows a length of time as a command has it, in ms.
func Duration(d time.Duration) string { return fmt.Sprint(d.Milliseconds(), "ms") }

// Words are the terms as a command has them.
func (t Terms) Words() (words []string) {
	if t.HasTake {
		words = append(words, "TAKE", fmt.Sprint(t.Take))
	}
	if t.Spare > 0 {
		words = append(words, "SPARE", fmt.Sprint(t.Spare))
	}
	if t.Shadow {
		words = append(words, "SHADOW")
	}
	return words
}

// Words are the limits as a command has them.
func Words(limits []Limit, terms ...Terms) []string {
	var words []string
	for i, l := range limits {
		words = append(words, strings.Fields(l.String())...)
		if i < len(terms) {
			words = append(words, terms[i].Words()...)
		}
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
	if o.Force {
		words = append(words, "FORCE")
	}
	if o.MaxWait > 0 {
		words = append(words, "MAXWAIT", Duration(o.MaxWait))
	}
	if o.Ban > 0 {
		words = append(words, "BAN", Duration(o.Ban))
	}
	if o.Ban > 0 && o.After.Count > 0 {
		words = append(words, "AFTER", fmt.Sprintf("%d/%s", o.After.Count, Duration(o.After.Period)))
	}
	return words
}
