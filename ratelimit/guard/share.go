package guard

import (
	"math"
	"strconv"
	"strings"
)

// share is one process's part of the limits that words say, of so many processes: together they
// never let more through than the limits do. ok is false when a part is no unit at all.
//
//	RATE count/period BURST capacity    the same count in a period that many times as long, which is
//	                                    exact; the capacity divided, rounded down
//	WINDOW, FIXED count/period          the count divided, rounded down
//	SPARE units                         divided, rounded up
//
// What is said of the call, such as COST and TAKE, is not divided.
func share(words []string, processes int64, atLeastOne bool) (parts []string, ok bool) {
	if processes == 1 {
		return words, true
	}
	part := func(units int64) int64 {
		if n := units / processes; n > 0 || !atLeastOne {
			return n
		}
		return 1
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
			if part(capacity) < 1 || !fits {
				return nil, false
			}
			parts = append(parts, word, quota, "BURST", text(part(capacity)))
			continue
		case word == "WINDOW" || word == "FIXED":
			count, period, _ := strings.Cut(words[i+1], "/")
			if part(number(count)) < 1 {
				return nil, false
			}
			parts = append(parts, word, text(part(number(count)))+"/"+period)
		case word == "SPARE":
			units := number(words[i+1])
			parts = append(parts, word, text(units/processes+min(units%processes, 1)))
		case word == "TAKE" || word == "COST" || word == "MAXWAIT" || word == "BAN" || word == "TZ" || word == "OFFSET":
			parts = append(parts, word, words[i+1])
		default:
			parts = append(parts, word)
			continue
		}
		i++
	}
	return parts, true
}

// slower is count/period at a rate so many times as slow. fits is false when that takes longer
// than any period can.
func slower(count int64, period string, times int64) (quota string, fits bool) {
	if count%times == 0 {
		return text(count/times) + "/" + period, true
	}
	unit := strings.TrimLeft(period, "0123456789")
	n := number(strings.TrimSuffix(period, unit))
	units := map[string]int64{"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
	const longestMs = math.MaxInt64 / 1_000_000
	if n > longestMs/times/units[unit] {
		return "", false
	}
	return text(count) + "/" + text(n*times) + unit, true
}

// number reads what Words wrote.
func number(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

func text(n int64) string { return strconv.FormatInt(n, 10) }
