package naive

import (
	"math"
	"math/big"
	"time"
)

// number is a whole number of any size, a value that does not change. What is counted in it never
// overflows, so that no rule has to be written around that. The zero value is 0.
type number struct{ big *big.Int }

func n(i int64) number { return number{big.NewInt(i)} }

func (a number) int() *big.Int {
	if a.big == nil {
		return new(big.Int)
	}
	return a.big
}

func (a number) plus(b number) number  { return number{new(big.Int).Add(a.int(), b.int())} }
func (a number) minus(b number) number { return number{new(big.Int).Sub(a.int(), b.int())} }
func (a number) times(b number) number { return number{new(big.Int).Mul(a.int(), b.int())} }

// over is the quotient rounded down, for b > 0, also of negative numbers.
func (a number) over(b number) number { return number{new(big.Int).Div(a.int(), b.int())} }

// overUp is the quotient rounded up, for b > 0.
func (a number) overUp(b number) number { return a.plus(b).minus(n(1)).over(b) }

func (a number) less(b number) bool { return a.int().Cmp(b.int()) < 0 }
func (a number) is(b number) bool   { return a.int().Cmp(b.int()) == 0 }
func (a number) positive() bool     { return a.int().Sign() > 0 }
func (a number) Int64() int64       { return a.int().Int64() }
func (a number) String() string     { return a.int().String() }

// wholeSecond is the first whole second from an instant in ns on, in ms.
func wholeSecond(ns number) number { return ns.overUp(n(int64(time.Second))).times(n(1000)) }

func least(a, b number) number {
	if b.less(a) {
		return b
	}
	return a
}

func most(a, b number) number {
	if a.less(b) {
		return b
	}
	return a
}

var zero = n(0)

// widest is the most units that a WINDOW or a FIXED counts (cl.limit.md).
var widest = n(math.MaxInt64)

// endOfTime is the last instant, in ns, that a key can hold, and the longest time that is told.
var endOfTime = n(math.MaxInt64)

// toldNs is a time as it is told.
func toldNs(a number) int64 { return least(a, endOfTime).Int64() }
