// Package protocols has small models of what the module does beside deciding: which callers wait in line, which are let
// in, and who listens. The model checker spin follows every run of each.
package protocols

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
)

// spin skips the test where it is not installed, unless that is what is to be shown.
func spin(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"spin", "gcc"} {
		size.NeedsProgram(t, program)
	}
}

func run(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
	return string(out)
}

// search is one question to spin: which runs of a model it follows, and how. Macros are variants of the model, and
// sizes.
type search struct {
	macros string
	// The LTL claim of the model takes the place of its assertions and end states.
	claim bool
	// The shortest runs come first, which takes more memory.
	shortestFirst bool
}

func (s search) name() string {
	name := strings.ReplaceAll(s.macros, " ", "-")
	if s.claim {
		name += "-everybody-is-done"
	}
	return name
}

// check has spin follow every run of a model. It returns what spin says, and the steps that there are.
func check(t *testing.T, model string, s search) (output, steps string) {
	t.Helper()
	file, err := filepath.Abs(model + ".pml")
	require.NoError(t, err)
	folder := t.TempDir()
	args := []string{"-o3", "-a"} // without merging steps, of which only the first would be known to be reached
	for _, macro := range strings.Fields(s.macros) {
		args = append(args, "-D"+macro)
	}
	run(t, folder, "spin", append(args, file)...)
	// The compiler would take longer to optimize than a small model takes to run.
	flags, options := []string{"-w", "-DMEMLIM=8000"}, []string{"-m100000"}
	if s.claim {
		options = append(options, "-a")
	} else {
		flags = append(flags, "-DSAFETY", "-DNOCLAIM")
	}
	if s.shortestFirst {
		flags = append(flags, "-DBFS")
	}
	run(t, folder, "gcc", append(flags, "-o", "pan", "pan.c")...)
	return run(t, folder, "./pan", options...), run(t, folder, "./pan", "-d")
}

var (
	statesPattern    = regexp.MustCompile(`(\d+) states, stored`)
	stepPattern      = regexp.MustCompile(`state +(\d+) -.*\.pml:(\d+) => (.*)`)
	unreachedPattern = regexp.MustCompile(`\.pml:\d+, state (\d+), `)
	indexPattern     = regexp.MustCompile(`\[[^][]*\]`)
	callersPattern   = regexp.MustCompile(`(<=?)[23]\b`) // in steps, the preprocessor has put the number
)

// requireHolds fails where there is a run that breaks something, or where not every run was followed.
func requireHolds(t *testing.T, output string) {
	t.Helper()
	require.Contains(t, output, "errors: 0\n", "%s", output)
	for _, cut := range []string{"max search depth too small", "Search not completed", "out of memory"} {
		require.NotContains(t, output, cut)
	}
	states := statesPattern.FindStringSubmatch(output)
	require.NotNil(t, states, "%s", output)
	require.Greater(t, len(states[1]), 3, "%s states are too few", states[1])
	t.Logf("%s states", states[1])
}

// coverage notes which steps of a model its runs have taken together.
type coverage struct {
	sync.Mutex
	runs      int
	isReached map[string]bool
}

// note adds the steps of one run. Spin counts a guard as taken once it was tried, and the only step of an inline
// always. So what shows a dead branch is the step behind them. A step of an inline is many of the checker's steps, and
// one of them is enough: they differ by what the inline is given, which stands between brackets. So do steps of runs
// with two and with three callers, by that number.
func (c *coverage) note(output, steps string) {
	unreached := map[string]bool{}
	for _, match := range unreachedPattern.FindAllStringSubmatch(output, -1) {
		unreached[match[1]] = true
	}
	c.Lock()
	defer c.Unlock()
	c.runs++
	for _, match := range stepPattern.FindAllStringSubmatch(steps, -1) {
		step := match[2] + ": " + match[3]
		for indexPattern.MatchString(step) {
			step = indexPattern.ReplaceAllString(step, "")
		}
		step = callersPattern.ReplaceAllString(step, "${1}CALLERS")
		c.isReached[step] = c.isReached[step] || !unreached[match[1]] || match[3] == "-end-"
	}
}

// missing returns the steps that no run has taken.
func (c *coverage) missing() (steps []string) {
	for step, is := range c.isReached {
		if !is {
			steps = append(steps, step)
		}
	}
	return steps
}

// variant is a search in each size: how many callers come. A model without callers has 0 in all sizes; 0 in the small
// size alone leaves a search of ten seconds or more to the full one.
type variant struct {
	search
	small, full, proof int
}

func (v variant) sized(t *testing.T) search {
	if v.small < v.full && v.small == 0 {
		size.NeedsFull(t)
	}
	if callers := size.OfProof(v.small, v.full, v.proof); callers > 0 {
		v.macros += fmt.Sprintf(" CALLERS=%d", callers)
	}
	return v.search
}

func TestEveryRunKeepsThePromises(t *testing.T) {
	for model, variants := range map[string][]variant{
		"line": {
			{search{macros: "RATES"}, 0, 3, 3},
			{search{macros: "RATES STEPS"}, 0, 2, 3},
			{search{macros: "RATES CALM", claim: true}, 0, 3, 3},
			{search{macros: "LEASES"}, 0, 3, 3},
			{search{macros: "LEASES STEPS"}, 0, 2, 3},
			{search{macros: "LEASES CALM", claim: true}, 0, 3, 3},
			{search{macros: "LEASES FAIR"}, 0, 2, 3},
			{search{macros: "LEASES FAIR STEPS"}, 0, 2, 2},
			{search{macros: "WINDOW"}, 2, 3, 3},
			{search{macros: "WINDOW CLUSTER"}, 0, 3, 3},
			{search{macros: "WINDOW CALM", claim: true}, 2, 3, 3},
			{search{macros: "MIXED"}, 0, 2, 3},
			{search{macros: "MIXED CALM", claim: true}, 0, 3, 3},
		},
		"listeners": {{search: search{}}},
	} {
		t.Run(model, func(t *testing.T) {
			covered, whole := coverage{isReached: map[string]bool{}}, 0
			for _, v := range variants {
				if !v.claim {
					whole++
				}
				t.Run(v.name(), func(t *testing.T) {
					s := v.sized(t)
					spin(t)
					output, steps := check(t, model, s)
					requireHolds(t, output)
					if !v.claim { // a claim stops where its formula is true
						covered.note(output, steps)
					}
				})
			}
			// After all of the runs, unless only some were asked for.
			t.Cleanup(func() {
				if covered.runs == whole {
					assert.Greater(t, len(covered.isReached), 100)
					assert.Empty(t, covered.missing(), "no run takes these steps")
				}
			})
		})
	}
}

// broken are models that are broken in one place, and the promise that a run of each breaks. Those of V010 are as
// version 0.1.0 was. Two callers are enough for all but those that say otherwise.
var broken = map[string]map[search]string{
	"line": {
		{macros: "RATES V010_LOST"}:                                       "nobodyIsLate",
		{macros: "RATES V010_SPIN"}:                                       "loopSleeps",
		{macros: "RATES V010_NESTED"}:                                     "everybodyInTheirLine",
		{macros: "RATES V010_PAUSE"}:                                      "nobodyIsLate",
		{macros: "RATES NO_LAPSE"}:                                        "neverTooMany",
		{macros: "RATES ONE_KEY NO_ORDER CALLERS=3", shortestFirst: true}: "nobodyIsSkipped",
		{macros: "RATES STEPS NO_STEP"}:                                   "nobodyIsLate",
		{macros: "RATES STEPS NO_TOLD"}:                                   "nobodyIsLate",
		{macros: "RATES STEPS NO_PROMISE"}:                                "nobodyIsEarly",
		{macros: "RATES NO_SEND_AWAY"}:                                    "nobodyStaysOnAReplica",
		{macros: "RATES NO_MASTER"}:                                       "replicaKeepsItsMasters",
		{macros: "LEASES NO_RECALL"}:                                      "nobodyIsForgotten",
		{macros: "LEASES NO_COUNT"}:                                       "nobodyIsForgotten",
		{macros: "LEASES NO_AHEAD"}:                                       "nobodyIsSkipped",
		{macros: "LEASES NO_TELL"}:                                        "nobodyIsForgotten",
		{macros: "LEASES NO_OWN_CHANGE"}:                                  "nobodyIsForgotten",
		{macros: "LEASES NO_RELEASE"}:                                     "nobodyIsForgotten",
		{macros: "LEASES NO_TIMEOUT"}:                                     "timeoutIsKept",
		{macros: "LEASES NO_CLOSE"}:                                       "noRestOfALine",
		{macros: "LEASES STEPS NO_STEP", shortestFirst: true}:             "nobodyIsForgotten",
		{macros: "LEASES FAIR STEPS NO_STEP", shortestFirst: true}:        "nobodyIsForgotten",
		{macros: "LEASES FAIR NO_AHEAD"}:                                  "nobodyIsSkipped",
		{macros: "LEASES FAIR LAST_COMES"}:                                "nobodyIsSkipped",
		{macros: "LEASES FAIR NO_PRIORITY"}:                               "higherComesFirst",
		{macros: "LEASES FAIR NO_PLACE"}:                                  "nobodyIsHeldBack",
		{macros: "LEASES FAIR NO_TURNS CALLERS=3"}:                        "groupsTakeTurns",
		{macros: "WINDOW CLUSTER NO_LOOK"}:                                "lookIsKept",
		{macros: "WINDOW CALM NO_HOLD", claim: true}:                      "everybodyIsDone",
	},
	"listeners": {
		{macros: "V010_SAVE"}:  "nobodyIsSentACall",
		{macros: "V010_LATCH"}: "fastPathComesBack",
		{macros: "NO_FORK"}:    "nobodyIsSentACall",
		{macros: "NO_UNIT"}:    "nobodyIsSentACall",
		{macros: "SHORT_LOOK"}: "nobodyIsSentACall",
		{macros: "SAME_ID"}:    "nobodyLacksAnEffect",
	},
}

func TestEveryBrokenModelIsFoundOut(t *testing.T) {
	for model, searches := range broken {
		for s, promise := range searches {
			t.Run(model+"-"+s.name(), func(t *testing.T) {
				if model == "line" && s.macros != "RATES V010_NESTED" { // gcc takes seconds for each
					size.NeedsFull(t)
				}
				spin(t)
				if !strings.Contains(s.macros, "CALLERS") {
					s.macros += " CALLERS=2"
				}
				output, _ := check(t, model, s)
				violated := "assertion violated " + promise + " "
				if s.claim { // a run that goes round for ever
					violated = "acceptance cycle "
				}
				assert.Contains(t, output, violated, "%s", output)
				assert.Contains(t, output, "errors: 1\n")
			})
		}
	}
}

var promisePattern = regexp.MustCompile(`(?m)\bmust\((\w+), |^ltl (\w+) `)

// A promise that no broken model breaks could be one that nothing can break.
func TestEveryPromiseIsBrokenByAModel(t *testing.T) {
	for model, searches := range broken {
		source, err := os.ReadFile(model + ".pml")
		require.NoError(t, err)
		promises, broken := map[string]bool{}, map[string]bool{}
		for _, match := range promisePattern.FindAllStringSubmatch(string(source), -1) {
			promises[match[1]+match[2]] = true
		}
		for _, promise := range searches {
			broken[promise] = true
		}
		delete(promises, "property") // of must itself
		assert.Equal(t, promises, broken, model)
	}
}
