package smt

import (
	"math/big"
	"sort"
	"strings"
)

// polynomial is a sum of products, by what is multiplied: names of atoms, in order, with spaces in between.
// The one of no name is the number alone.
type polynomial map[string]*big.Int

func (p polynomial) add(key string, n *big.Int) {
	if p[key] == nil {
		p[key] = new(big.Int)
	}
	if p[key].Add(p[key], n).Sign() == 0 {
		delete(p, key)
	}
}

func (p polynomial) plus(q polynomial, sign int64) polynomial {
	sum := polynomial{}
	for key, n := range p {
		sum.add(key, n)
	}
	for key, n := range q {
		sum.add(key, new(big.Int).Mul(n, big.NewInt(sign)))
	}
	return sum
}

func (p polynomial) times(q polynomial) polynomial {
	product := polynomial{}
	for a, n := range p {
		for b, m := range q {
			atoms := append(strings.Fields(a), strings.Fields(b)...)
			sort.Strings(atoms)
			product.add(strings.Join(atoms, " "), new(big.Int).Mul(n, m))
		}
	}
	return product
}

// polynomialOf makes the polynomial of a term from those of its parts; what is no sum or product is an atom.
func polynomialOf(t *Term, name string, parts map[*Term]polynomial) polynomial {
	switch {
	case t.op == opLit:
		p := polynomial{}
		p.add("", t.lit)
		return p
	case t.op == opConv:
		return parts[t.args[0]]
	case t.op == opAdd:
		return parts[t.args[0]].plus(parts[t.args[1]], 1)
	case t.op == opSub:
		return parts[t.args[0]].plus(parts[t.args[1]], -1)
	case t.op == opMul:
		return parts[t.args[0]].times(parts[t.args[1]])
	default:
		return polynomial{name: big.NewInt(1)}
	}
}

// text writes a polynomial with a constant for each product of several atoms.
func (p polynomial) text() (sum string, products []string) {
	keys := make([]string, 0, len(p))
	for key := range p {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	words := []string{"0", "0"}
	for _, key := range keys {
		if key == "" {
			words = append(words, number(p[key]))
			continue
		}
		name := strings.ReplaceAll(key, " ", ".")
		if name != key {
			products = append(products, name)
		}
		words = append(words, "(* "+number(p[key])+" "+name+")")
	}
	return "(+ " + strings.Join(words, " ") + ")", products
}
