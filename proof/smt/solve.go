package smt

import (
	"context"
	"fmt"
	"math/big"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// Answer is what the solver says of a problem.
type Answer struct {
	Verdict string // unsat: the claim holds for all values; sat: it does not, for Values; else it is not known
	Values  Values
}

// Solve has z3 decide a problem within a limit of time.
func Solve(problem string, limit time.Duration) (Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit+5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "z3", "-smt2", "-in", fmt.Sprintf("-T:%d", int(limit.Seconds())))
	cmd.Stdin = strings.NewReader(problem)
	// z3 exits with 1 where there are no values to tell, so its words count.
	out, _ := cmd.CombinedOutput()
	verdict, rest, _ := strings.Cut(string(out), "\n")
	switch verdict {
	case "unsat", "unknown", "timeout":
		return Answer{Verdict: verdict}, nil
	case "sat":
		return Answer{verdict, parseValues(rest)}, nil
	default:
		return Answer{}, fmt.Errorf("z3: %s", out)
	}
}

var (
	valuePattern = regexp.MustCompile(`\((\w+) (#x[0-9a-f]+|\(- [0-9]+\)|[0-9]+|true|false)\)`)
	digits       = regexp.MustCompile(`[0-9]+`)
)

// parseValues reads ((a 1) (b (- 2)) (c #x00ff)); bit-vectors as not negative.
func parseValues(text string) Values {
	values := Values{}
	for _, match := range valuePattern.FindAllStringSubmatch(text, -1) {
		n := new(big.Int)
		switch word := match[2]; {
		case word == "true":
			n.SetInt64(1)
		case word == "false":
		case strings.HasPrefix(word, "#x"):
			n.SetString(word[2:], 16)
		case strings.HasPrefix(word, "("):
			n.SetString(digits.FindString(word), 10)
			n.Neg(n)
		default:
			n.SetString(word, 10)
		}
		values[match[1]] = n
	}
	return values
}

// Signed are values with those of Int64 variables of the terms read as Go reads the bits.
func Signed(values Values, terms ...*Term) Values {
	_, vars := order(terms...)
	signed := Values{}
	for _, v := range vars {
		if value, ok := values[v.name]; ok {
			n := new(big.Int).Set(value)
			wrap(n, v.sort)
			signed[v.name] = n
		}
	}
	return signed
}
