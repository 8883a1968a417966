package naive

import "math/big"

// number is a whole number of any size, a value that does not change. What is counted in it never
// overflows, so that no rule has to be written around that.
type number struct{ big *big.Int }

func n(i int64) number { return number{big.NewInt(i)} }

func (a number) plus(b number) number  { return number{new(big.Int).Add(a.big, b.big)} }
func (a number) minus(b number) number { return number{new(big.Int).Sub(a.big, b.big)} }
func (a number) times(b number) number { return number{new(big.Int).Mul(a.big, b.big)} }

// over is the quotient rounded down, for b > 0, also of negative numbers.
func (a number) over(b number) number { return number{new(big.Int).Div(a.big, b.big)} }

// overUp is the quotient rounded up, for b > 0.
func (a number) overUp(b number) number { return a.plus(b).minus(n(1)).over(b) }

func (a number) less(b number) bool { return a.big.Cmp(b.big) < 0 }
func (a number) is(b number) bool   { return a.big.Cmp(b.big) == 0 }
func (a number) positive() bool     { return a.big.Sign() > 0 }
func (a number) Int64() int64       { return a.big.Int64() }
func (a number) String() string     { return a.big.String() }

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
