package calendar

// Cache remembers windows, so that an instant in one of them is answered without looking at a
// calendar. The zero Cache remembers none. It takes 12 KB and never more.
type Cache struct {
	entries [1 << cacheBits]cached
}

const cacheBits = 8

type cached struct {
	spec   Spec
	window Window
}

// At returns s.At(nowNs).
func (c *Cache) At(s Spec, nowNs int64) Window {
	if s.unit == 0 {
		return s.fixedAt(nowNs)
	}
	e := &c.entries[s.bucket()]
	if e.spec != s || nowNs < e.window.Start || nowNs >= e.window.End {
		*e = cached{s, s.At(nowNs)}
	}
	return e.window
}

// bucket spreads specs over the cache. The multiplier is 2^64 divided by the golden ratio.
func (s Spec) bucket() uint64 {
	const golden = 0x9e3779b97f4a7c15
	h := uint64(s.offsetNs)
	h = h*golden + uint64(s.n)
	h = h*golden + uint64(s.zone.place)<<8 + uint64(s.unit)
	return h * golden >> (64 - cacheBits)
}
