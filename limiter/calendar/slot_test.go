package calendar

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// As many specs as there are slots, which differ in one thing alone. By chance they would take some 160 of the 256.
func TestSpecsAreSpreadOverTheCache(t *testing.T) {
	const specs, least = 1 << cacheBits, 100
	for name, vary := range map[string]func(*Spec, int64){
		"unit":        func(s *Spec, i int64) { s.unit = Unit(i) },
		"count":       func(s *Spec, i int64) { s.n = i },
		"zone":        func(s *Spec, i int64) { s.zone.place = int16(i) },
		"offset in h": func(s *Spec, i int64) { s.offsetNs = i * 3600 * second },
	} {
		slots := map[uint64]bool{}
		for i := range int64(specs) {
			s := Spec{n: 1, unit: Day}
			vary(&s, i)
			slots[s.bucket()] = true
			assert.Less(t, s.bucket(), uint64(specs))
		}
		assert.Greater(t, len(slots), least, name)
	}
}
