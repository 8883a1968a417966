package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// history draws the steps of one history. A few keys and periods come again and again, so that calls meet what others
// left.
type history struct {
	*rand.Rand
	kinds   []string // of limits, with their periods: each call draws counts for some of them
	keys    []string
	holders []string // of leases
	most    int      // limits of a call
	hostile bool
	steps   []time.Duration // of the clock
}

func draw(r *rand.Rand) (steps []string) {
	h := &history{Rand: r, keys: []string{"a", "b", "c"}[:1+r.IntN(3)], most: 1 + r.IntN(3), hostile: r.IntN(4) == 0}
	if r.IntN(6) == 0 {
		h.most = 8
	}
	h.holders = []string{"x", "y", "z"}
	if r.IntN(6) == 0 { // a call sweeps some of the leases that have lapsed, not all
		h.holders = strings.Split("abcdefghijklmnopqrstuvwxyz", "")
	}
	h.drawKinds()
	for range 3 + r.IntN(22) {
		if r.IntN(3) == 0 {
			steps = append(steps, h.clock())
		}
		steps = append(steps, "> "+h.call())
	}
	return steps
}

func pick[T any](h *history, from ...T) T { return from[h.IntN(len(from))] }

func (h *history) oneIn(n int) bool { return h.IntN(n) == 0 }

type period struct {
	word string
	is   time.Duration
}

var periods = []period{
	{"1s", time.Second}, {"10s", 10 * time.Second}, {"1m", time.Minute}, {"1h", time.Hour}, {"1.5s", 1500 * time.Millisecond}, {"7ms", 7 * time.Millisecond},
	{"1d", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}, {"365d", 365 * 24 * time.Hour}, {"0.3ms", 300 * time.Microsecond},
}

// ends are the shortest periods and the longest one. A step of the clock over the latter would lead out of the range of
// instants.
var ends = []period{{"106751d", 365 * 24 * time.Hour}, {"0.001ms", time.Microsecond}, {"0.000001ms", time.Microsecond}}

// drawKinds chooses what the limits of the history are.
func (h *history) drawKinds() {
	some := periods[h.IntN(len(periods)):]
	some = some[:min(len(some), 1+h.IntN(3))]
	n := 1 + h.IntN(4)
	if h.most == 8 {
		n = 6 + h.IntN(6)
	}
	for range n {
		p := pick(h, some...)
		if h.most == 8 {
			p = pick(h, periods...)
		}
		if h.hostile && h.oneIn(3) {
			p = pick(h, ends...)
		}
		h.steps = append(h.steps, p.is)
		switch h.IntN(8) {
		case 0, 1, 2:
			h.kinds = append(h.kinds, "RATE %d/"+p.word)
		case 3, 4:
			h.kinds = append(h.kinds, "WINDOW %d/"+p.word)
		case 5:
			h.kinds = append(h.kinds, "FIXED %d/"+p.word+" FIRST")
		case 6:
			h.kinds = append(h.kinds, "FIXED %d/"+p.word)
		default:
			h.kinds = append(h.kinds, h.calendar())
			h.steps = append(h.steps, 24*time.Hour, 31*24*time.Hour)
		}
	}
}

func (h *history) calendar() string {
	kind := "FIXED %d/" + pick(h, "d", "2d", "w", "5w", "mo", "3mo", "y")
	switch h.IntN(5) {
	case 0:
		return kind + " OFFSET " + pick(h, "6h", "36h", "1.5ms", "0.0005ms", "40d")
	case 1:
		return kind + " TZ " + pick(h, "Europe/Berlin", "America/New_York", "Asia/Kathmandu")
	case 2:
		return kind + " TZ UTC OFFSET 2h"
	case 3:
		return kind + " FIRST"
	default:
		return kind
	}
}

// clock is a step of the clock.
func (h *history) clock() string {
	by := pick(h, h.steps...)
	switch h.IntN(8) {
	case 0:
		by = time.Duration(h.Int64N(int64(by)))
	case 1:
		by = by / 64 * time.Duration(h.IntN(70))
	case 2:
		by = time.Duration(h.IntN(3000)) * time.Millisecond
	case 3:
		by = by * time.Duration(h.IntN(5)) / 4
	case 4:
		by += time.Duration(h.IntN(3)-1) * time.Microsecond
	default:
		by /= time.Duration(1 + h.IntN(10))
	}
	return fmt.Sprintf("%s%dus", pick(h, "+", "+", "+", "+", "-"), by.Microseconds())
}

// units is a number of units.
func (h *history) units() int64 {
	if h.hostile && h.oneIn(3) {
		return pick[int64](h, 1<<53-1, 1<<52, 1_000_000, 1_000_000_000, 3_000_000_000_000, 65, 0)
	}
	return int64(h.IntN(5))
}

func (h *history) count() int64 {
	if h.hostile && h.oneIn(4) {
		return pick[int64](h, 1<<53-1, 1<<53-2, 1_000_000, 1_000_000_000, 100)
	}
	if h.oneIn(12) {
		return 0
	}
	return 1 + int64(h.IntN(10))
}

// limits draws a stack for a call, which has the name without CL.
func (h *history) limits(command string) string {
	n := 1
	if !h.oneIn(3) {
		n += h.IntN(h.most)
	}
	var all []string
	for range n {
		all = append(all, h.limit(command))
	}
	return strings.Join(all, " ")
}

func (h *history) limit(command string) string {
	text := fmt.Sprintf(pick(h, h.kinds...), h.count())
	if strings.HasPrefix(text, "RATE") && h.oneIn(3) {
		text += fmt.Sprint(" BURST ", max(h.count(), 1))
	}
	if command == "SETTLE" {
		if h.oneIn(8) {
			text += " SHADOW"
		}
		return text + fmt.Sprint(" TAKE ", h.units(), " USED ", h.units())
	}
	if h.oneIn(6) {
		text += fmt.Sprint(" TAKE ", h.units())
	}
	if command != "REFUND" && h.oneIn(6) {
		text += fmt.Sprint(" SPARE ", h.units())
	}
	if h.oneIn(7) {
		text += " SHADOW"
	}
	return text
}

func (h *history) call() string {
	key := pick(h, h.keys...)
	n := h.IntN(40)
	if len(h.holders) > 3 && h.oneIn(2) { // many come and go
		return h.lease()
	}
	switch {
	case n < 20:
		return "CL.LIMIT " + key + " " + h.limits("LIMIT") + h.options(false)
	case n < 26:
		return h.several("MLIMIT")
	case n < 28:
		return "CL.PEEK " + key + " " + h.limits("PEEK") + h.cost() + h.each()
	case n < 31:
		return "CL.REFUND " + key + " " + h.limits("REFUND") + h.cost() + h.each()
	case n < 33:
		return "CL.BAN " + key + " " + pick(h, "0", "1s", "1m", "7ms", "36500d")
	case n < 36:
		return h.admission()
	case n < 37:
		return h.several("SETTLE")
	case n < 38:
		return "DEL " + key
	default:
		return h.lease()
	}
}

func (h *history) cost() string {
	if h.oneIn(2) {
		return ""
	}
	return fmt.Sprint(" COST ", h.units())
}

func (h *history) each() string {
	if h.oneIn(3) {
		return " EACH"
	}
	return ""
}

// options draws those of CL.LIMIT, and of CL.MLIMIT without slots.
func (h *history) options(any bool) (text string) {
	switch n := h.IntN(10); {
	case n < 2:
		text = " UPTO"
	case n < 4:
		text = " STRICT"
	case n < 6:
		text = " FORCE"
	case n < 7:
		text = " MAXWAIT " + pick(h, "1s", "100ms", "1h", "36500d")
	}
	if any {
		text += " ANY"
	} else if h.oneIn(3) {
		text += " BAN " + pick(h, "1s", "1m", "7ms", "0", "400d")
		if h.oneIn(2) {
			text += fmt.Sprintf(" AFTER %d/%s", 1+h.IntN(3), pick(h, "1s", "1m", "1d"))
		}
	}
	return text + h.cost() + h.each()
}

// several draws a call with several keys: of limits for CL.MLIMIT, of limits and slots for CL.SETTLE.
func (h *history) several(command string) string {
	keys := h.shuffled()
	var groups []string
	for range keys {
		groups = append(groups, h.limits(command))
	}
	if command == "SETTLE" {
		return h.withSlots(keys, groups, "SETTLE", "SLOTS") + " ID " + pick(h, h.holders...) + h.each()
	}
	if h.oneIn(3) {
		groups = groups[:1]
	}
	return fmt.Sprintf("CL.MLIMIT %d %s %s", len(keys), strings.Join(keys, " "), strings.Join(groups, " NEXT ")) + h.options(h.oneIn(3))
}

func (h *history) admission() string {
	keys := h.shuffled()
	keys = keys[:h.IntN(len(keys)+1)]
	var groups []string
	for range keys {
		groups = append(groups, h.limits("MLIMIT"))
	}
	slots := fmt.Sprintf("SLOTS %d TTL %s", h.slots(), h.ttl())
	text := h.withSlots(keys, groups, "MLIMIT", slots) + " ID " + pick(h, h.holders...)
	if h.oneIn(3) {
		text += " STRICT"
	}
	return text + h.cost() + h.each()
}

// withSlots puts a group of slots, or two, among those of limits.
func (h *history) withSlots(keys, groups []string, command, slots string) string {
	for _, key := range []string{h.leased(), "u"}[:1+h.IntN(5)/4] {
		at := h.IntN(len(keys) + 1)
		keys = append(keys[:at:at], append([]string{key}, keys[at:]...)...)
		groups = append(groups[:at:at], append([]string{slots}, groups[at:]...)...)
	}
	return fmt.Sprintf("CL.%s %d %s %s", command, len(keys), strings.Join(keys, " "), strings.Join(groups, " NEXT "))
}

func (h *history) shuffled() (keys []string) {
	for _, i := range h.Perm(len(h.keys)) {
		keys = append(keys, h.keys[i])
	}
	return keys
}

// leased is a key with slots. Rarely it has limits, too.
func (h *history) leased() string {
	if h.oneIn(16) {
		return pick(h, h.keys...)
	}
	return pick(h, "s", "t")
}

func (h *history) ttl() string {
	if h.hostile && h.oneIn(4) {
		return pick(h, "1ms", "36500d")
	}
	return pick(h, "1s", "10s", "15ms", "1h")
}

func (h *history) slots() int64 {
	if h.hostile && h.oneIn(4) {
		return 1<<53 - 1
	}
	return int64(h.IntN(1 + len(h.holders)))
}

func (h *history) lease() string {
	key, id, ttl := h.leased(), pick(h, h.holders...), h.ttl()
	switch h.IntN(4) {
	case 0:
		return fmt.Sprintf("CL.RENEW %s ID %s TTL %s", key, id, ttl)
	case 1:
		return fmt.Sprintf("CL.RELEASE %s ID %s", key, id)
	default:
		return fmt.Sprintf("CL.LEASE %s SLOTS %d TTL %s ID %s", key, h.slots(), ttl, id)
	}
}
