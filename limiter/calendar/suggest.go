package calendar

import "path"

const mostTypos = 2

// Suggest returns the zone that was probably meant by a name that LookupZone refuses, or "" if
// none is near. It ignores case and takes a space for an underscore. It finds names with up to two typos, and
// places without their region: "berlin" is Europe/Berlin.
//
// It allocates nothing, and a long name takes it no longer: errors are free for callers to cause.
func Suggest(name []byte) string {
	best, fewest := "", min(mostTypos, len(name)/4)+1
	entries := database().entries
	for i := range entries {
		zone, allowed := entries[i].name, fewest
		region, place := path.Split(zone)
		if region == "" || region == "Etc/" {
			// CST is no typo of EST, and GMT+1 is not Etc/GMT+1, whose sign is the other way round.
			place, allowed = zone, 1
		}
		if n := min(typos(name, zone, allowed), typos(name, place, allowed)); n < allowed {
			best, fewest = zone, n
		}
	}
	return best
}

// typos is how many letters of a have to be changed, added, removed or swapped with their neighbour to make
// it b (the optimal string alignment distance), or limit if that many or more.
func typos(a []byte, b string, limit int) int {
	if max(len(a)-len(b), len(b)-len(a)) >= limit {
		return limit
	}
	for len(a) > 0 && len(b) > 0 && sameLetter(a[0], b[0]) {
		a, b = a[1:], b[1:]
	}
	if len(a) == 0 || len(b) == 0 {
		return min(limit, len(a)+len(b))
	}
	fewest := limit - 1
	fewest = typos(a[1:], b[1:], fewest)
	fewest = typos(a[1:], b, fewest)
	fewest = typos(a, b[1:], fewest)
	if len(a) > 1 && len(b) > 1 && sameLetter(a[0], b[1]) && sameLetter(a[1], b[0]) {
		fewest = typos(a[2:], b[2:], fewest)
	}
	return 1 + fewest
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
