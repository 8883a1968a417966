package naive

import (
	"time"

	"redis-throttle/internal/civil"
)

// windows divide time into those of a FIXED: from begin to just before end.
type windows interface {
	at(now number) (begin, end number)
	id() string
	// hashed says whether a key holds a hash of them in place of a period, and number is then what it
	// calls the window of an instant (state.md).
	hashed() bool
	number(now number) number
}

// lengths are windows of one length, the first of which begins an offset after the epoch.
type lengths struct{ length, offset number }

func (w lengths) at(now number) (begin, end number) {
	begin = now.minus(w.offset).over(w.length).times(w.length).plus(w.offset)
	return begin, begin.plus(w.length)
}

func (w lengths) id() string { return w.length.String() + "+" + w.offset.String() }

func (w lengths) hashed() bool { return !w.offset.is(zero) }

func (w lengths) number(now number) number { return now.minus(w.offset).over(w.length).plus(n(1)) }

// dates are windows of the calendar.
type dates struct{ *civil.Windows }

func (w dates) at(now number) (begin, end number) {
	window := w.At(now.Int64())
	return n(window.Start), n(window.End)
}

func (w dates) id() string { return w.Words() }

func (w dates) hashed() bool { return true }

func (w dates) number(now number) number { return n(w.At(now.Int64()).Number + 2) }

// windows divides time as a FIXED without FIRST does. Days in UTC are of one length.
func (l Limit) windows() windows {
	if l.Calendar == nil {
		return lengths{n(int64(l.Period)), n(int64(l.Offset))}
	}
	if l.Calendar.Unit == "d" && l.Calendar.Zone == "UTC" {
		return lengths{n(l.Calendar.N).times(n(int64(24 * time.Hour))), n(int64(l.Calendar.Offset))}
	}
	return dates{l.Calendar}
}
