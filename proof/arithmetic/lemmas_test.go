package arithmetic

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/proof/smt"
)

const limit = 60 * time.Second // of each problem; the slowest takes a fraction

// z3 skips the test where the solver is not installed, unless that is what is to be shown.
func z3(t *testing.T) {
	t.Helper()
	size.NeedsProgram(t, "z3")
}

// solve leaves the problem in the folder PROVE_SMT, if that is set.
func solve(t *testing.T, name, problem string) smt.Answer {
	if folder := os.Getenv("PROVE_SMT"); folder != "" {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name+".smt2"), []byte(problem), 0o644))
	}
	answer, err := smt.Solve(problem, limit)
	require.NoError(t, err)
	return answer
}

// someLemmas are all of them, or one in six where tests are small.
func someLemmas() (some []Lemma) {
	for i, lemma := range Lemmas() {
		if i%size.Of(6, 1) == 0 {
			some = append(some, lemma)
		}
	}
	return some
}

func TestEveryLemmaHoldsForAllInputs(t *testing.T) {
	z3(t)
	for _, lemma := range someLemmas() {
		t.Run(lemma.Name, func(t *testing.T) {
			begun := time.Now()
			answer := solve(t, lemma.Name, lemma.Problem())
			require.Equal(t, "unsat", answer.Verdict, "%s: %v", lemma.Says, answer.Values)
			t.Logf("%s (%v)", lemma.Says, time.Since(begun).Round(time.Millisecond))
		})
	}
}

// What is given must be possible: anything follows from what is not.
func TestWhatIsGivenIsPossible(t *testing.T) {
	z3(t)
	size.NeedsFull(t)
	for _, lemma := range Lemmas() {
		t.Run(lemma.Name, func(t *testing.T) {
			answer := solve(t, lemma.Name+"-possible", lemma.PossibleProblem())
			require.Equal(t, "sat", answer.Verdict)
		})
	}
}

// Every lemma off by one is refuted, by values that refute it in Go's arithmetic, too.
func TestEveryTwinIsRefuted(t *testing.T) {
	z3(t)
	for _, lemma := range someLemmas() {
		t.Run(lemma.Name, func(t *testing.T) {
			problem, given := lemma.TwinProblem()
			answer := solve(t, lemma.Name+"-twin", problem)
			require.Equal(t, "sat", answer.Verdict)
			results := smt.Compile(append([]*smt.Term{lemma.Twin}, given...)...).Run(smt.Signed(answer.Values, append(given, lemma.Twin)...))
			assert.Zero(t, results[0].Sign(), "%v", answer.Values)
			for i, holds := range results[1:] {
				assert.NotZero(t, holds.Sign(), "given %d of %v", i, answer.Values)
			}
		})
	}
}
