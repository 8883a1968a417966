package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"redis-throttle/cmd/throttle-replay/table"
)

// bar shows on a terminal how far reading has come. Elsewhere it shows nothing.
type bar struct {
	out   *os.File // nil for none
	shown time.Time
	began time.Time
}

func newBar(out *os.File, isQuiet bool) *bar {
	b := &bar{began: time.Now()}
	if !isQuiet && term.IsTerminal(int(out.Fd())) {
		b.out = out
	}
	return b
}

// barEvery is how often the bar is drawn.
const barEvery = 100 * time.Millisecond

func (b *bar) show(read, total, lines int64) {
	now := time.Now()
	if b.out == nil || now.Sub(b.shown) < barEvery {
		return
	}
	b.shown = now
	width, _, err := term.GetSize(int(b.out.Fd()))
	if err != nil || width < 20 {
		return
	}
	text := table.Number(lines) + " lines"
	if seconds := now.Sub(b.began).Seconds(); seconds > 1 {
		text += fmt.Sprintf(", %s a second", table.Number(int64(float64(lines)/seconds)))
	}
	if total > 0 {
		const cells = 24
		done := min(int(read*cells/total), cells)
		text = fmt.Sprintf("%s%s %3d %%  %s", strings.Repeat("█", done), strings.Repeat("░", cells-done), min(read*100/total, 100), text)
	}
	if runes := []rune(text); len(runes) >= width {
		text = string(runes[:width-1])
	}
	fmt.Fprint(b.out, "\r\x1b[K"+text)
}

// clear removes the bar.
func (b *bar) clear() {
	if b.out != nil && !b.shown.IsZero() {
		fmt.Fprint(b.out, "\r\x1b[K")
	}
}
