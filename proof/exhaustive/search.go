package exhaustive

import (
	"hash/maphash"
	"iter"
	"strconv"
)

// place is where a history has come to.
type place interface {
	// key is equal for places of which the same follows. It may be written over b.
	key(b []byte) []byte
	history() string
}

// search tries all sequences of up to depth moves, until one breaks a promise, which r.Problem then says. Two that lead
// to the same place are followed as one: what comes after depends on the place alone, and breadth first the first to
// come there has the most moves left.
func search[P place](start P, depth int, r *Result, moves func(from P) iter.Seq[P]) {
	seen := newSet()
	seen.add(start.key(nil))
	var key []byte
	for level := []P{start}; r.Depth < depth && len(level) > 0; {
		var next []P
		for _, from := range level {
			for to := range moves(from) {
				if r.Problem != "" {
					r.Problem += " after" + to.history()
					return
				}
				key = to.key(key)
				if seen.add(key) && r.Depth+1 < depth {
					next = append(next, to)
				}
			}
		}
		r.Depth++
		r.States, r.Sequences = len(seen.hashes), power(r.Moves, r.Depth)
		level = next
	}
}

// set is one of states, by 128 bits of hash: that any two of a hundred million are taken for one has a probability
// below 10^-22.
type set struct {
	hashes map[[2]uint64]struct{}
	seeds  [2]maphash.Seed
}

func newSet() *set {
	return &set{map[[2]uint64]struct{}{}, [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// add reports whether the state is new.
func (s *set) add(key []byte) bool {
	n := len(s.hashes)
	s.hashes[[2]uint64{maphash.Bytes(s.seeds[0], key), maphash.Bytes(s.seeds[1], key)}] = struct{}{}
	return len(s.hashes) > n
}

func power(n, exponent int) string {
	f := 1.0
	for range exponent {
		f *= float64(n)
	}
	if f < 1e15 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'e', 1, 64)
}
