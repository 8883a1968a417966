package replay

import (
	"maps"
	"math"
	"math/bits"
	"slices"
)

// counts is how often each number came: exactly.
type counts struct {
	dense  [512]int64 // of the numbers below 512
	sparse map[int64]int64
	total  int64
	most   int64 // the largest number
}

func (c *counts) add(n, times int64) {
	c.total += times
	c.most = max(c.most, n)
	if n < int64(len(c.dense)) {
		c.dense[n] += times
		return
	}
	if c.sparse == nil {
		c.sparse = map[int64]int64{}
	}
	c.sparse[n] += times
}

func (c *counts) merge(o *counts) {
	c.total += o.total
	c.most = max(c.most, o.most)
	for n, times := range o.dense {
		c.dense[n] += times
	}
	if c.sparse == nil {
		c.sparse = o.sparse
		return
	}
	for n, times := range o.sparse {
		c.sparse[n] += times
	}
}

// share is a part of a whole: of so many.
type share struct{ part, of int64 }

// quantile returns the smallest number that at least this share of all do not exceed, 0 of none.
func (c *counts) quantile(q share) int64 { return c.quantiles(q)[0] }

// quantiles are several of them, in rising order.
func (c *counts) quantiles(qs ...share) []int64 {
	found := make([]int64, 0, len(qs))
	sum := int64(0)
	walk := func(n, times int64) {
		sum += times
		for len(found) < len(qs) && reaches(sum, c.total, qs[len(found)]) {
			found = append(found, n)
		}
	}
	for n, times := range c.dense {
		if times > 0 {
			walk(int64(n), times)
		}
	}
	if len(found) < len(qs) {
		for _, n := range slices.Sorted(maps.Keys(c.sparse)) {
			walk(n, c.sparse[n])
		}
	}
	for len(found) < len(qs) {
		found = append(found, 0)
	}
	return found
}

// reaches reports whether sum is at least the share q of total.
func reaches(sum, total int64, q share) bool {
	hi, lo := bits.Mul64(uint64(sum), uint64(q.of))
	hi2, lo2 := bits.Mul64(uint64(total), uint64(q.part))
	return hi > hi2 || hi == hi2 && lo >= lo2
}

// above is how many numbers are larger than n.
func (c *counts) above(n int64) (times int64) {
	if n < 0 {
		return c.total
	}
	for i := n + 1; i < int64(len(c.dense)); i++ {
		times += c.dense[i]
	}
	for m, k := range c.sparse {
		if m > n {
			times += k
		}
	}
	return times
}

// waits are lengths of time in ms, in classes: those below 256 exactly, longer ones by their first eight bits. A class
// is called by its longest time, so that nobody is told to come back too early.
type waits struct {
	classes [64 << 7]int64
	total   int64
	most    int64
	never   int64 // requests that no wait makes possible
}

func (w *waits) add(ms, times int64) {
	if ms < 0 {
		w.never += times
		return
	}
	w.total += times
	w.most = max(w.most, ms)
	w.classes[classOf(ms)] += times
}

func classOf(ms int64) int {
	shift := max(bits.Len64(uint64(ms))-8, 0)
	return shift<<7 + int(ms>>shift)
}

func longestOf(class int) int64 {
	shift := max(class>>7-1, 0)
	first := int64(class) - int64(shift)<<7
	if shift >= 55 {
		return math.MaxInt64
	}
	return (first+1)<<shift - 1
}

func (w *waits) merge(o *waits) {
	w.total += o.total
	w.never += o.never
	w.most = max(w.most, o.most)
	for i, n := range o.classes {
		w.classes[i] += n
	}
}

func (w *waits) quantile(q share) int64 {
	sum := int64(0)
	for class, n := range w.classes {
		if sum += n; n > 0 && reaches(sum, w.total, q) {
			return min(longestOf(class), w.most)
		}
	}
	return 0
}
