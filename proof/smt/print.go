package smt

import (
	"cmp"
	"fmt"
	"math/big"
	"strings"
)

// Theory is how numbers are told to the solver.
type Theory int

const (
	// Bits are bit-vectors of 64: operations wrap around as Go's do. No Whole is allowed.
	Bits Theory = iota
	// Integers are exact. They are what Go computes where Defined holds.
	Integers
	// Monomials are integers of which the solver knows sums only: terms are written as polynomials, in which
	// each product of variables is a variable of its own. What holds for those holds for the products; what
	// does not hold may yet do so.
	Monomials
)

// Problem is the SMT-LIB text that asks for values for which all of given hold and claim does not: a
// claim that holds for all values is answered with unsat.
func Problem(theory Theory, comment string, given []*Term, claim *Term) string {
	terms := append(append([]*Term{}, given...), claim)
	steps, vars := order(terms...)
	var b strings.Builder
	for line := range strings.Lines(comment) {
		fmt.Fprintf(&b, "; %s\n", strings.TrimRight(line, "\n"))
	}
	b.WriteString("(set-option :produce-models true)\n")
	if theory == Bits {
		b.WriteString("(set-logic QF_BV)\n")
	}
	for _, v := range vars {
		fmt.Fprintf(&b, "(declare-const %s %s)\n", v.name, sortName(theory, v.sort))
		if theory != Bits {
			if lo, hi := v.sort.limits(); lo != nil {
				fmt.Fprintf(&b, "(assert (<= %s %s %s))\n", number(lo), v.name, number(hi))
			}
		}
	}
	names, polynomials, declared := map[*Term]string{}, map[*Term]polynomial{}, map[string]bool{}
	for i, t := range steps {
		if theory == Monomials && t.sort != Bool {
			p := polynomialOf(t, cmp.Or(t.name, fmt.Sprintf("t%d", i)), polynomials)
			polynomials[t] = p
			if t.op == opAdd || t.op == opSub || t.op == opMul {
				sum, products := p.text()
				for _, name := range products {
					if !declared[name] {
						declared[name] = true
						fmt.Fprintf(&b, "(declare-const %s Int)\n", name)
					}
				}
				names[t] = fmt.Sprintf("t%d", i)
				fmt.Fprintf(&b, "(define-fun t%d () Int %s)\n", i, sum)
				continue
			}
		}
		switch {
		case t.op == opVar:
			names[t] = t.name
		case t.op == opLit:
			names[t] = literal(theory, t)
		default:
			names[t] = fmt.Sprintf("t%d", i)
			fmt.Fprintf(&b, "(define-fun t%d () %s %s)\n", i, sortName(theory, t.sort), expression(theory, t, names))
		}
	}
	for _, t := range given {
		fmt.Fprintf(&b, "(assert %s)\n", names[t])
	}
	fmt.Fprintf(&b, "(assert (not %s))\n(check-sat)\n(get-value (", names[claim])
	for _, v := range vars {
		fmt.Fprintf(&b, " %s", v.name)
	}
	b.WriteString("))\n")
	return b.String()
}

func sortName(theory Theory, sort Sort) string {
	switch {
	case sort == Bool:
		return "Bool"
	case theory != Bits:
		return "Int"
	case sort == Whole:
		panic("smt: whole numbers are no bit-vectors")
	default:
		return "(_ BitVec 64)"
	}
}

func number(n *big.Int) string {
	if n.Sign() < 0 {
		return "(- " + new(big.Int).Neg(n).String() + ")"
	}
	return n.String()
}

func literal(theory Theory, t *Term) string {
	switch {
	case t.sort == Bool && t.lit.Sign() == 0:
		return "false"
	case t.sort == Bool:
		return "true"
	case theory != Bits:
		return number(t.lit)
	default:
		return fmt.Sprintf("#x%016x", new(big.Int).Mod(t.lit, two64))
	}
}

var bitOps = map[op][2]string{ // of Int64, of Uint64
	opAdd: {"bvadd", "bvadd"}, opSub: {"bvsub", "bvsub"}, opMul: {"bvmul", "bvmul"},
	opQuo: {"bvsdiv", "bvudiv"}, opRem: {"bvsrem", "bvurem"},
	opLt: {"bvslt", "bvult"}, opLe: {"bvsle", "bvule"},
}

func expression(theory Theory, t *Term, names map[*Term]string) string {
	args := make([]string, len(t.args))
	for i, arg := range t.args {
		args[i] = names[arg]
	}
	if t.op == opConv {
		return args[0] // the same bits, and the same number where Defined holds
	}
	name := string(t.op)
	if bits, ok := bitOps[t.op]; ok && theory == Bits {
		name = bits[0]
		if t.args[0].sort == Uint64 {
			name = bits[1]
		}
	}
	return "(" + name + " " + strings.Join(args, " ") + ")"
}
