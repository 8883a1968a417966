package command

import (
	"bytes"
	"time"

	"redis-throttle/stack"
)

// words reads the arguments of the commands that speak in words.
type words struct {
	args   [][]byte
	next   int
	limits *stack.Stack // where limits go
}

// take returns the next word; ok is false at the end.
func (w *words) take() (word []byte, ok bool) {
	if w.next == len(w.args) {
		return nil, false
	}
	w.next++
	return w.args[w.next-1], true
}

// skip passes over the next word if it is keyword, in capitals or not.
func (w *words) skip(keyword string) bool {
	if w.next < len(w.args) && isKeyword(w.args[w.next], keyword) {
		w.next++
		return true
	}
	return false
}

func isKeyword(word []byte, keyword string) bool {
	return len(word) == len(keyword) && bytes.EqualFold(word, []byte(keyword))
}

// parseQuota reads count/period, such as 5/s or 100/30m. The period may be a bare
// unit; a bare number is seconds.
func parseQuota(text []byte) (count, n int64, unit time.Duration, err error) {
	count, period, ok := divideQuota(text)
	if !ok {
		return 0, 0, 0, errMalformed
	}
	n, unit, err = parseUnits(period, 1)
	if err == nil && n <= 0 {
		err = errMalformed
	}
	return count, n, unit, err
}

// divideQuota divides count/period into a positive count and the rest.
func divideQuota(text []byte) (count int64, period []byte, ok bool) {
	slash := bytes.IndexByte(text[:min(len(text), maxNumberLen)], '/')
	if slash < 0 {
		return 0, nil, false
	}
	count, ok = parseInt(text[:slash])
	return count, text[slash+1:], ok && count > 0
}

// parseDuration reads a length of time in the forms of a period, 0 included, as ns.
func parseDuration(text []byte) (ns int64, err error) {
	n, unit, err := parseUnits(text, 1)
	switch {
	case err != nil:
		return 0, err
	case n < 0 || n > int64(maxDuration/unit):
		return 0, errMalformed
	}
	return n * int64(unit), nil
}

// maxDuration is the longest time a caller may wait, 100 years: with it no sum of
// two times comes near 2^63 ns.
const maxDuration = 100 * 365 * 24 * time.Hour
