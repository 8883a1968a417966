// Package civil is a naive calendar, for models that windows of the calendar are compared with: it asks a
// zone what its clocks show, instant by instant. Of package calendar it takes the files of the zones alone.
//
// It looks at every quarter of an hour, so what it is told has to be made of those: offsets, and
// zones whose clocks are ahead by quarters.
package civil

import (
	"archive/zip"
	"fmt"
	"io/fs"
	"sort"
	"strings"
	"sync"
	"time"

	"redis-throttle/limiter/calendar"
)

// Windows are n units each, by the clocks of a zone, and begin an offset later. A unit is d, w,
// mo or y. Use the pointer: it remembers the last window.
type Windows struct {
	N      int64
	Unit   string
	Zone   string
	Offset time.Duration

	zone *time.Location
	last Window
}

// Window is one of them, from Start to just before End, in ns since the Unix epoch. Numbers
// rise with time, and may skip some.
type Window struct{ Number, Start, End int64 }

// Words are what follows the count and the slash in FIXED count/period.
func (w *Windows) Words() string {
	words := fmt.Sprintf("%d%s", w.N, w.Unit)
	if w.Offset > 0 {
		words += fmt.Sprintf(" OFFSET %dm", int64(w.Offset/time.Minute))
	}
	if w.Zone != "UTC" {
		words += " TZ " + w.Zone
	}
	return words
}

const (
	quarter   = int64(15 * time.Minute)
	daySec    = 24 * 60 * 60
	longestNs = 370 * daySec * int64(time.Second) // of one unit
)

// At is the window that an instant lies in.
func (w *Windows) At(nowNs int64) Window {
	if w.last.Start <= nowNs && nowNs < w.last.End {
		return w.last
	}
	if w.zone == nil {
		w.zone = load(w.Zone)
	}
	now := nowNs / quarter
	number := w.begun(now)
	most := int(w.N * longestNs / quarter)
	later := sort.Search(most, func(i int) bool { return w.begun(now+int64(i)) > number })
	earlier := sort.Search(most, func(i int) bool { return w.begun(now-int64(i)) < number })
	w.last = Window{number, (now - int64(earlier) + 1) * quarter, (now + int64(later)) * quarter}
	return w.last
}

// archive is the data that the module has, whatever the machine or Go have.
var archive = sync.OnceValues(func() (*zip.Reader, error) {
	return zip.NewReader(strings.NewReader(calendar.Archive), int64(len(calendar.Archive)))
})

func load(name string) *time.Location {
	files, err := archive()
	if err != nil {
		panic(err)
	}
	content, err := fs.ReadFile(files, name)
	if err != nil {
		panic(err)
	}
	zone, err := time.LoadLocationFromTZData(name, content)
	if err != nil {
		panic(err)
	}
	return zone
}

// begun is the number of the last window that has begun in a quarter of an hour since the
// epoch. Clocks that are set back show an earlier one again, for a few hours at most.
func (w *Windows) begun(at int64) int64 {
	number := w.shown(at)
	for i := int64(1); i <= 16; i++ {
		number = max(number, w.shown(at-i))
	}
	return number
}

// shown is the number of the window that the clocks show.
func (w *Windows) shown(at int64) int64 {
	t := time.Unix(0, at*quarter).In(w.zone)
	onTheClock := time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
	begins := onTheClock.Add(-w.Offset)
	var units int64
	switch w.Unit {
	case "d":
		units = days(begins)
	case "w":
		units = down(days(begins)+3, 7) // 1969-12-29 was a Monday
	case "mo":
		units = int64(begins.Year()-1970)*12 + int64(begins.Month()) - 1
	case "y":
		units = int64(begins.Year() - 1970)
	default:
		panic("no such unit: " + w.Unit)
	}
	return down(units, w.N)
}

func days(t time.Time) int64 { return down(t.Unix(), daySec) }

func down(a, b int64) int64 {
	if a < 0 {
		return -((-a + b - 1) / b)
	}
	return a / b
}
