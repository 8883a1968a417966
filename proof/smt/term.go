// Package smt has terms that are executable and provable: the same term is evaluated as Go's machine
// arithmetic, and written as an SMT-LIB problem that a solver decides for all values of its variables.
package smt

import (
	"fmt"
	"math/big"
)

// Sort is the type of a term. Int64 and Uint64 are Go's, and wrap around; Whole is the integers.
type Sort int

const (
	Bool Sort = iota
	Int64
	Uint64
	Whole
)

type op string

const (
	opVar  op = "var"
	opLit  op = "lit"
	opAdd  op = "+"
	opSub  op = "-"
	opMul  op = "*"
	opQuo  op = "div"
	opRem  op = "mod"
	opConv op = "conv"
	opEq   op = "="
	opLt   op = "<"
	opLe   op = "<="
	opAnd  op = "and"
	opOr   op = "or"
	opNot  op = "not"
	opIf   op = "ite"
)

// Term is an expression. Terms are shared, never changed.
type Term struct {
	op   op
	sort Sort
	args []*Term
	name string   // of a variable
	lit  *big.Int // of a literal; of a Bool 0 or 1
}

// Var is a variable; those with the same name are the same.
func Var(name string, sort Sort) *Term { return &Term{op: opVar, sort: sort, name: name} }

// N is a number.
func N(sort Sort, n int64) *Term { return Big(sort, big.NewInt(n)) }

// Big is a number.
func Big(sort Sort, n *big.Int) *Term { return &Term{op: opLit, sort: sort, lit: n} }

// True is the claim that holds always, False the one that never does.
var (
	True  = &Term{op: opLit, sort: Bool, lit: big.NewInt(1)}
	False = &Term{op: opLit, sort: Bool, lit: big.NewInt(0)}
)

func (t *Term) binary(o op, other *Term) *Term {
	if t.sort != other.sort || t.sort == Bool {
		panic(fmt.Sprintf("smt: %s of sorts %d and %d", o, t.sort, other.sort))
	}
	return &Term{op: o, sort: t.sort, args: []*Term{t, other}}
}

func (t *Term) compare(o op, other *Term) *Term {
	if t.sort != other.sort {
		panic(fmt.Sprintf("smt: %s of sorts %d and %d", o, t.sort, other.sort))
	}
	return &Term{op: o, sort: Bool, args: []*Term{t, other}}
}

func (t *Term) Plus(other *Term) *Term  { return t.binary(opAdd, other) }
func (t *Term) Minus(other *Term) *Term { return t.binary(opSub, other) }
func (t *Term) Times(other *Term) *Term { return t.binary(opMul, other) }

// Over is the quotient of what is not negative by what is positive, rounded down, and Rest what remains.
func (t *Term) Over(other *Term) *Term { return t.binary(opQuo, other) }
func (t *Term) Rest(other *Term) *Term { return t.binary(opRem, other) }

// As is the term converted as Go converts it. Whole numbers are the ones to convert to for a claim
// that is about exact numbers.
func (t *Term) As(sort Sort) *Term {
	if t.sort == sort {
		return t
	}
	return &Term{op: opConv, sort: sort, args: []*Term{t}}
}

func (t *Term) Is(other *Term) *Term      { return t.compare(opEq, other) }
func (t *Term) Less(other *Term) *Term    { return t.compare(opLt, other) }
func (t *Term) AtMost(other *Term) *Term  { return t.compare(opLe, other) }
func (t *Term) Greater(other *Term) *Term { return other.Less(t) }
func (t *Term) AtLeast(other *Term) *Term { return other.AtMost(t) }

// And holds if all do, Or if one does.
func And(terms ...*Term) *Term { return junction(opAnd, True, False, terms) }
func Or(terms ...*Term) *Term  { return junction(opOr, False, True, terms) }

// junction leaves out what does not count.
func junction(o op, neutral, decides *Term, terms []*Term) *Term {
	var rest []*Term
	for _, t := range terms {
		switch t {
		case neutral:
		case decides:
			return decides
		default:
			rest = append(rest, t)
		}
	}
	switch len(rest) {
	case 0:
		return neutral
	case 1:
		return rest[0]
	}
	return &Term{op: o, sort: Bool, args: rest}
}

// Not is the contrary.
func Not(t *Term) *Term {
	switch t {
	case True:
		return False
	case False:
		return True
	}
	return &Term{op: opNot, sort: Bool, args: []*Term{t}}
}

func Implies(a, b *Term) *Term { return Or(Not(a), b) }

// Iff says that both hold or neither.
func Iff(a, b *Term) *Term { return a.Is(b) }

// If is then where the condition holds, and otherwise els.
func If(condition, then, els *Term) *Term {
	if condition.sort != Bool || then.sort != els.sort {
		panic("smt: If of two sorts")
	}
	return &Term{op: opIf, sort: then.sort, args: []*Term{condition, then, els}}
}

func Max(a, b *Term) *Term { return If(a.Less(b), b, a) }
func Min(a, b *Term) *Term { return If(b.Less(a), b, a) }

// Between says lo <= t <= hi.
func (t *Term) Between(lo, hi *Term) *Term { return And(lo.AtMost(t), t.AtMost(hi)) }

var (
	two63 = new(big.Int).Lsh(big.NewInt(1), 63)
	two64 = new(big.Int).Lsh(big.NewInt(1), 64)
)

// limits are the smallest and the largest number of a sort, or nil.
func (s Sort) limits() (lo, hi *big.Int) {
	one := big.NewInt(1)
	switch s {
	case Int64:
		return new(big.Int).Neg(two63), new(big.Int).Sub(two63, one)
	case Uint64:
		return new(big.Int), new(big.Int).Sub(two64, one)
	default:
		return nil, nil
	}
}

// inRange says that a whole number is one of a sort.
func inRange(t *Term, sort Sort) *Term {
	lo, hi := sort.limits()
	if lo == nil {
		return True
	}
	return t.Between(Big(Whole, lo), Big(Whole, hi))
}

// Defined says that, wherever t computes, no operation leaves the numbers of its sort, nothing is
// divided by zero and nothing negative is divided: that Go's machine arithmetic is exact there. What
// is in the branches of If, and behind an operand of And or Or, counts only where it is reached.
func Defined(terms ...*Term) *Term {
	seen := map[*Term]*Term{}
	var all []*Term
	for _, t := range terms {
		all = append(all, defined(t, seen))
	}
	return And(all...)
}

func defined(t *Term, seen map[*Term]*Term) *Term {
	if done, ok := seen[t]; ok {
		return done
	}
	var all []*Term
	switch t.op {
	case opIf:
		all = append(all, defined(t.args[0], seen),
			Implies(t.args[0], defined(t.args[1], seen)), Implies(Not(t.args[0]), defined(t.args[2], seen)))
	case opAnd, opOr: // as && and ||, from the left
		reached := True
		for _, arg := range t.args {
			all = append(all, Implies(reached, defined(arg, seen)))
			if t.op == opOr {
				arg = Not(arg)
			}
			reached = And(reached, arg)
		}
	default:
		for _, arg := range t.args {
			all = append(all, defined(arg, seen))
		}
	}
	switch t.op {
	case opAdd, opSub, opMul:
		exact := &Term{op: t.op, sort: Whole, args: []*Term{t.args[0].As(Whole), t.args[1].As(Whole)}}
		all = append(all, inRange(exact, t.sort))
	case opQuo, opRem:
		zero := N(t.sort, 0)
		all = append(all, zero.AtMost(t.args[0]), zero.Less(t.args[1]))
	case opConv:
		all = append(all, inRange(t.args[0].As(Whole), t.sort))
	}
	result := And(all...)
	seen[t] = result
	return result
}

// order lists what the terms consist of, parts first, each once; variables are told apart by name.
func order(terms ...*Term) (all []*Term, vars []*Term) {
	seen, names := map[*Term]bool{}, map[string]bool{}
	var visit func(*Term)
	visit = func(t *Term) {
		if seen[t] {
			return
		}
		seen[t] = true
		for _, arg := range t.args {
			visit(arg)
		}
		all = append(all, t)
		if t.op == opVar && !names[t.name] {
			names[t.name] = true
			vars = append(vars, t)
		}
	}
	for _, t := range terms {
		visit(t)
	}
	return all, vars
}
