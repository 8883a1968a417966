package fields

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"redis-throttle/cmd/throttle-replay/logs"
)

// Cost is how many units a request takes: one, or what a field says.
type Cost struct {
	text    string
	field   string
	divisor float64
}

// ParseCost reads the name of a field, and behind a slash what its number is divided by: bytes/1024 charges for each
// KiB that is begun. "" is a cost of one.
func ParseCost(text string) (c Cost, err error) {
	c = Cost{text: text, field: text, divisor: 1}
	if name, divisor, ok := strings.Cut(text, "/"); ok {
		c.field = name
		c.divisor, err = strconv.ParseFloat(divisor, 64)
		if err != nil || !(c.divisor > 0) || math.IsInf(c.divisor, 0) {
			return c, fmt.Errorf("--cost %q: expected a field, and behind a slash a number above 0, such as bytes/1024", text)
		}
	}
	if text != "" && c.field == "" {
		return c, fmt.Errorf("--cost %q: expected a field, such as bytes", text)
	}
	return c, nil
}

// String is what ParseCost read.
func (c Cost) String() string { return c.text }

// IsOne reports whether every request takes one unit.
func (c Cost) IsOne() bool { return c.field == "" }

// Bind has a layout read the field.
func (c Cost) Bind(l logs.Layout) (BoundCost, error) {
	b := BoundCost{divisor: c.divisor, field: -1}
	if c.IsOne() {
		return b, nil
	}
	var err error
	b.field, err = wants(l, "--cost", c.field)
	return b, err
}

// BoundCost tells the costs of records of one layout.
type BoundCost struct {
	field   int
	divisor float64
}

// MostUnits is the highest cost that is read.
const MostUnits = 1 << 31

// Of is the cost of a record, rounded up. ok is false if the field has no number from 0 to MostUnits.
func (c *BoundCost) Of(r *logs.Record) (units int64, ok bool) {
	if c.field < 0 {
		return 1, true
	}
	text := bytes.TrimSpace(r.Fields[c.field])
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(n >= 0) {
		return 0, false
	}
	if n = math.Ceil(n / c.divisor); n > MostUnits {
		return 0, false
	}
	return int64(n), true
}
