package calendar

import (
	"math/bits"
	"strings"
)

const (
	longestName = 64 // bytes; the longest in the database has 32
	mostTypos   = 2
)

// Suggest returns the zone that was probably meant by a name that LookupZone refuses, or "" if
// none is near. It ignores case and takes a space for an underscore. It finds names with up to two typos, and
// places without their region: "berlin" is Europe/Berlin.
//
// It allocates nothing: errors are free for callers to cause.
func Suggest(name []byte) string {
	if len(name) == 0 || len(name) > longestName {
		return ""
	}
	meant := lettersIn(name)
	best, fewest := "", min(mostTypos, len(name)/4)+1
	hasRegion := strings.IndexByte(string(name), '/') >= 0
	entries := database().entries
	for i := range entries {
		zone := entries[i].name
		region, place, inRegion := cutRegion(zone)
		// CST is no typo of EST, and GMT+1 is not Etc/GMT+1, whose sign is the other way round.
		allowed := fewest
		if !inRegion || region == "Etc" {
			allowed = 1
		}
		n := typos(name, zone, meant, allowed)
		if !hasRegion && inRegion && region != "Etc" {
			n = min(n, typos(name, place, meant, allowed))
		}
		if n < allowed {
			best, fewest = zone, n
		}
	}
	return best
}

// letterSet has a bit for several letters each.
type letterSet uint32

func lettersIn[T string | []byte](text T) (l letterSet) {
	for i := range len(text) {
		l |= 1 << (folded(text[i]) % 32)
	}
	return l
}

// cutRegion splits America/Argentina/Salta into America/Argentina and Salta.
func cutRegion(zone string) (region, place string, ok bool) {
	i := strings.LastIndexByte(zone, '/')
	if i < 0 {
		return "", zone, false
	}
	return zone[:i], zone[i+1:], true
}

// typos is how many letters of a have to be changed, added, removed or swapped with their neighbour to make
// it b (the optimal string alignment distance), or limit if that many or more. It fills only the part of the
// table where fewer are possible. A typo adds or removes at most one letter of the set inA.
func typos(a []byte, b string, inA letterSet, limit int) int {
	if len(b) > longestName || len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	if inB := lettersIn(b); bits.OnesCount32(uint32(inA&^inB)) >= limit || bits.OnesCount32(uint32(inB&^inA)) >= limit {
		return limit
	}
	var rows [3][longestName + 1]uint8
	most := uint8(limit)
	for j := range min(len(b), limit+1) + 1 {
		rows[0][j] = uint8(j)
	}
	for i := 1; i <= len(a); i++ {
		row, last, secondLast := &rows[i%3], &rows[(i+2)%3], &rows[(i+1)%3]
		from, to := max(1, i-limit), min(len(b), i+limit)
		row[from-1] = most
		if from == 1 {
			row[0] = uint8(i)
		}
		least := row[from-1]
		for j := from; j <= to; j++ {
			n := last[j-1]
			if !sameLetter(a[i-1], b[j-1]) {
				n = 1 + min(n, row[j-1], last[j])
				if i > 1 && j > 1 && sameLetter(a[i-1], b[j-2]) && sameLetter(a[i-2], b[j-1]) {
					n = min(n, 1+secondLast[j-2])
				}
			}
			row[j] = n
			least = min(least, n)
		}
		if to < len(b) {
			row[to+1] = most
		}
		if least >= most {
			return limit
		}
	}
	return int(min(most, rows[len(a)%3][len(b)]))
}

func sameLetter(a, b byte) bool { return folded(a) == folded(b) }

func folded(c byte) byte {
	switch {
	case 'A' <= c && c <= 'Z':
		return c + 'a' - 'A'
	case c == ' ':
		return '_'
	default:
		return c
	}
}
