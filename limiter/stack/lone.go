package stack

import (
	"encoding/binary"

	"redis-throttle/limiter/window"
)

// A limit that counts units, alone in its call and its key: most calls that are not of a lone rate. It is decided as by
// Take, but without what several limits, terms and other states need.

// PlainCount says that a limit counts at least one unit and has no terms.
func (l *Limit) PlainCount() bool {
	return !l.hasTerms && (l.kind == Window || l.kind == Fixed || l.kind == First)
}

// loneStateAt is where the state begins in a value of one limit.
const loneStateAt = headerLen + limitHeaderLen

// TakeLone replaces the limits of the stack by limit, which is a PlainCount, and asks it for cost units. value is what
// the key holds of it; none at all if there is no key. If that is anything but the state of this limit alone, it
// returns false, and nothing was done.
func (s *Stack) TakeLone(result *Result, limit *Limit, value []byte, cost, nowNs int64) (done bool) {
	if len(value) > 0 && !holdsLone(value, limit) {
		return false
	}
	l := &s.layers[0]
	l.set(limit, &s.calendar)
	if len(value) > 0 && l.Decode(value[loneStateAt:]) != nil {
		return false
	}
	*result = Result{}
	var corrected bool
	var retryNs int64
	if l.kind == Window {
		var d window.Decision
		l.window.TakeTo(&d, nowNs, cost)
		corrected, retryNs = d.Corrected, d.RetryNs
		result.Limit, result.Remaining, result.ResetAfterNs, result.NextAfterNs = d.Count, d.Available, d.ResetNs, d.NextNs
	} else {
		corrected = l.BringTo(nowNs)
		if retryNs = l.RetryAfter(nowNs, cost); retryNs == 0 && cost > 0 {
			l.Charge(nowNs, cost, 0)
		}
		result.Limit, result.Remaining, result.ResetAfterNs, result.NextAfterNs = l.Standing(nowNs)
	}
	if retryNs == 0 {
		result.RetryAfterNs, result.Granted, result.Changed = Never, cost, cost > 0
	} else {
		result.Limited, result.RetryAfterNs, result.Changed = true, retryNs, corrected && cost > 0
	}
	return true
}

// holdsLone says whether a value begins as one of a limit alone. Its Decode checks the rest.
func holdsLone(value []byte, limit *Limit) bool {
	return len(value) >= loneStateAt && value[0] == version && value[1] == 1 && Kind(value[2]) == limit.kind &&
		binary.LittleEndian.Uint64(value[3:]) == limit.id && int(binary.LittleEndian.Uint16(value[11:])) == len(value)-loneStateAt
}

// LoneUntil is ExpireAt after TakeLone.
func (s *Stack) LoneUntil() uint64 { return s.layers[0].ExpireAt() }

// AppendLone is Append after TakeLone.
func (s *Stack) AppendLone(dst []byte) []byte {
	l := &s.layers[0]
	start := len(dst)
	dst = append(dst, version, 1, byte(l.kind))
	dst = binary.LittleEndian.AppendUint64(dst, l.id)
	dst = l.Append(append(dst, 0, 0))
	binary.LittleEndian.PutUint16(dst[start+loneStateAt-2:], uint16(len(dst)-start-loneStateAt))
	return dst
}
