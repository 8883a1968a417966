package guard

import (
	"math"
	"strconv"
	"strings"
)

// share is one process's part of the limits that words say: the processes together
// never let more through than the limits do, unless atLeastOne. ok is false when a part is no unit at all.
//
//	RATE count/period BURST capacity    the same count in a period that many times as long, which is
//	                                    exact; the capacity divided, rounded down
//	WINDOW, FIXED count/period          the count divided, rounded down
//	SPARE units                         divided, rounded up
//	SLOTS n                             divided, rounded down
//
// A limit of 0 lets nothing through, in no process. What is said of the call, such as COST and TAKE, is not divided.
func share(words []string, processes int64, atLeastOne bool) (parts []string, ok bool) {
	if processes == 1 {
		return words, true
	}
	part := func(units int64) int64 {
		if n := units / processes; n > 0 || !atLeastOne {
			return n
		}
		return min(units, 1)
	}
	parts = make([]string, 0, len(words)+2)
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case i+1 == len(words):
			parts = append(parts, word)
			continue
		case word == "RATE":
			count, period, _ := strings.Cut(words[i+1], "/")
			capacity := number(count)
			i++
			if i+2 < len(words) && words[i+1] == "BURST" {
				capacity = number(words[i+2])
				i += 2
			}
			quota, fits := slower(number(count), period, processes)
			if (part(capacity) < 1 && capacity > 0) || !fits {
				return nil, false
			}
			parts = append(parts, word, quota, "BURST", text(part(capacity)))
			continue
		case word == "WINDOW" || word == "FIXED":
			count, period, _ := strings.Cut(words[i+1], "/")
			if part(number(count)) < 1 && number(count) > 0 {
				return nil, false
			}
			parts = append(parts, word, text(part(number(count)))+"/"+period)
		case word == "SLOTS" && words[i+1] != "NEXT" && words[i+1] != "ID": // those of CL.SETTLE have no number
			if part(number(words[i+1])) < 1 {
				return nil, false
			}
			parts = append(parts, word, text(part(number(words[i+1]))))
		case word == "SPARE":
			units := number(words[i+1])
			parts = append(parts, word, text(units/processes+min(units%processes, 1)))
		case word == "TAKE" || word == "COST" || word == "MAXWAIT" || word == "BAN" || word == "TZ" || word == "OFFSET" ||
			word == "TTL" || word == "ID" || word == "TIMEOUT" || word == "GROUP" || word == "WEIGHT" || word == "PRIORITY":
			parts = append(parts, word, words[i+1])
		default:
			parts = append(parts, word)
			continue
		}
		i++
	}
	return parts, true
}

// slower returns count/period at a rate that is times as slow. fits is false when that takes longer
// than any period can.
func slower(count int64, period string, times int64) (quota string, fits bool) {
	if count%times == 0 {
		return text(count/times) + "/" + period, true
	}
	unit := strings.TrimLeft(period, "0123456789.")
	whole, decimals, _ := strings.Cut(strings.TrimSuffix(period, unit), ".")
	unitNs := map[string]int64{"ms": nsPerMs, "s": 1000 * nsPerMs, "m": 60_000 * nsPerMs, "h": 3_600_000 * nsPerMs, "d": 86_400_000 * nsPerMs}[unit]
	if unitNs == 0 || (decimals != "" && unit != "ms") || number(whole) > math.MaxInt64/times/unitNs-1 {
		return "", false
	}
	ns := number(whole) * unitNs
	if decimals != "" { // of a millisecond
		ns += number((decimals + "000000")[:6])
	}
	ns *= times
	quota = text(count) + "/" + text(ns/nsPerMs)
	if ns%nsPerMs > 0 {
		quota += "." + text(nsPerMs + ns%nsPerMs)[1:]
	}
	return quota + "ms", true
}

const nsPerMs = 1_000_000

// number reads what a Limiter wrote.
func number(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

func text(n int64) string { return strconv.FormatInt(n, 10) }
