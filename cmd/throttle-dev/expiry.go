package main

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// expiryAt says where the commands of miniredis have a length of time or an instant. miniredis keeps what is left of a
// key's time in ns, and with more than these can count it deletes the key, or keeps it for another time.
type expiryAt struct {
	word     int           // that the expiry is, or from which on an option of expiryOptions may be
	unit     time.Duration // 0 for options
	absolute bool
}

var expiries = map[string]expiryAt{
	"EXPIRE": {2, time.Second, false}, "PEXPIRE": {2, time.Millisecond, false}, "EXPIREAT": {2, time.Second, true}, "PEXPIREAT": {2, time.Millisecond, true},
	"SETEX": {2, time.Second, false}, "PSETEX": {2, time.Millisecond, false}, "RESTORE": {2, time.Millisecond, false},
	"HEXPIRE": {2, time.Second, false}, "HPEXPIRE": {2, time.Millisecond, false}, "HEXPIREAT": {2, time.Second, true}, "HPEXPIREAT": {2, time.Millisecond, true},
	"SET": {word: 3}, "GETEX": {word: 2}, "HGETEX": {word: 2}, "HSETEX": {word: 2},
}

var expiryOptions = map[string]expiryAt{
	"EX": {1, time.Second, false}, "PX": {1, time.Millisecond, false}, "EXAT": {1, time.Second, true}, "PXAT": {1, time.Millisecond, true},
}

const tooFar = "ERR throttle-dev keeps no key for longer than 292 years"

// boundExpiry reports whether miniredis can keep the expiry that a command sets. One that is long over becomes one that
// is just over.
func boundExpiry(words []string, nowNs int64) (ok bool) {
	at, sets := expiries[strings.ToUpper(words[0])]
	if !sets {
		return true
	}
	if at.unit > 0 {
		return at.bound(words, at.word, nowNs)
	}
	for i := at.word; i+1 < len(words) && !strings.EqualFold(words[i], "FIELDS"); i++ {
		if option, is := expiryOptions[strings.ToUpper(words[i])]; is && !option.bound(words, i+1, nowNs) {
			return false
		}
	}
	return true
}

func (at expiryAt) bound(words []string, i int, nowNs int64) bool {
	if i >= len(words) {
		return true
	}
	n, err := strconv.ParseInt(words[i], 10, 64)
	most := math.MaxInt64 / int64(at.unit)
	switch {
	case err != nil:
		return true
	case at.absolute:
		return n <= most || n-nowNs/int64(at.unit) <= most
	case n < -most:
		words[i] = "-1"
	}
	return n <= most
}
