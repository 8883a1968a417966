package smt

import "math/big"

// Values has a value for each variable, by name.
type Values map[string]*big.Int

// Program computes terms.
type Program struct {
	steps []*Term
	place map[*Term]int
	out   []*Term
	room  []big.Int
}

// Compile makes a program that computes terms.
func Compile(terms ...*Term) *Program {
	steps, _ := order(terms...)
	p := &Program{steps: steps, place: map[*Term]int{}, out: terms, room: make([]big.Int, len(steps))}
	for i, t := range steps {
		p.place[t] = i
	}
	return p
}

// Run computes the terms as Go would: what leaves the numbers of a sort wraps around. A division by zero
// gives zero, as a branch may be computed that is not taken. The results hold until the next Run.
func (p *Program) Run(values Values) []*big.Int {
	for i, t := range p.steps {
		p.step(&p.room[i], t, values)
	}
	results := make([]*big.Int, len(p.out))
	for i, t := range p.out {
		results[i] = &p.room[p.place[t]]
	}
	return results
}

func (p *Program) step(to *big.Int, t *Term, values Values) {
	arg := func(i int) *big.Int { return &p.room[p.place[t.args[i]]] }
	truth := func(holds bool) {
		to.SetInt64(0)
		if holds {
			to.SetInt64(1)
		}
	}
	switch t.op {
	case opVar:
		value, ok := values[t.name]
		if !ok {
			panic("smt: no value of " + t.name)
		}
		to.Set(value)
	case opLit:
		to.Set(t.lit)
	case opAdd:
		to.Add(arg(0), arg(1))
	case opSub:
		to.Sub(arg(0), arg(1))
	case opMul:
		to.Mul(arg(0), arg(1))
	case opQuo, opRem:
		switch {
		case arg(1).Sign() == 0:
			to.SetInt64(0)
		case t.op == opQuo:
			to.Quo(arg(0), arg(1))
		default:
			to.Rem(arg(0), arg(1))
		}
	case opConv:
		to.Set(arg(0))
	case opEq:
		truth(arg(0).Cmp(arg(1)) == 0)
	case opLt:
		truth(arg(0).Cmp(arg(1)) < 0)
	case opLe:
		truth(arg(0).Cmp(arg(1)) <= 0)
	case opAnd, opOr:
		holds := t.op == opAnd
		for i := range t.args {
			if one := arg(i).Sign() != 0; t.op == opAnd {
				holds = holds && one
			} else {
				holds = holds || one
			}
		}
		truth(holds)
	case opNot:
		truth(arg(0).Sign() == 0)
	case opIf:
		if arg(0).Sign() != 0 {
			to.Set(arg(1))
		} else {
			to.Set(arg(2))
		}
	}
	wrap(to, t.sort)
}

// wrap brings n into the numbers of a sort, as Go does.
func wrap(n *big.Int, sort Sort) {
	lo, hi := sort.numbers()
	if lo == nil || n.Cmp(lo) >= 0 && n.Cmp(hi) <= 0 {
		return
	}
	n.Mod(n, two64) // 0 to 2^64 - 1
	if sort == Int64 && n.Cmp(two63) >= 0 {
		n.Sub(n, two64)
	}
}

var (
	minInt64, maxInt64   = Int64.limits()
	minUint64, maxUint64 = Uint64.limits()
)

// numbers are limits, which are made once.
func (s Sort) numbers() (lo, hi *big.Int) {
	switch s {
	case Int64:
		return minInt64, maxInt64
	case Uint64:
		return minUint64, maxUint64
	default:
		return nil, nil
	}
}
