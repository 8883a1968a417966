// Package protocols has small models of what the module does beside deciding: which callers wait in line, which are let in, and
// who listens. The model checker spin follows every run of each.
package protocols

import (
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

// spin skips the test where it is not installed, unless that is what is to be shown. Where tests are small, they have one
// model, the smallest.
func spin(t *testing.T, model string) {
	t.Parallel()
	if model != "listeners" {
		size.NeedsFull(t)
	}
	for _, program := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if size.Proving() {
			t.Fatalf("there is no %s on PATH: run scripts/setup prove", program)
		}
		t.Skipf("there is no %s on PATH; scripts/setup prove installs it", program)
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

// check has spin follow every run of a model, and returns what it says, and the steps that there are. The LTL claim of the model, if it has one, takes the place of
// its assertions and end states.
func check(t *testing.T, model string, claim bool, macros ...string) (output, steps string) {
	t.Helper()
	file, err := filepath.Abs(model + ".pml")
	require.NoError(t, err)
	folder := t.TempDir()
	args := []string{"-o3", "-a"} // without merging steps, of which only the first would be known to be reached
	for _, macro := range macros {
		args = append(args, "-D"+macro)
	}
	run(t, folder, "spin", append(args, file)...)
	flags, search := []string{"-w", "-DMEMLIM=2000"}, []string{"-m40000"}
	if claim {
		search = append(search, "-a")
	} else {
		flags = append(flags, "-DSAFETY", "-DNOCLAIM")
	}
	run(t, folder, "gcc", append(flags, "-o", "pan", "pan.c")...)
	return run(t, folder, "./pan", search...), run(t, folder, "./pan", "-d")
}

var (
	statesPattern    = regexp.MustCompile(`(\d+) states, stored`)
	stepPattern      = regexp.MustCompile(`state +(\d+) -.*\.pml:(\d+) => (.*)`)
	unreachedPattern = regexp.MustCompile(`\.pml:\d+, state (\d+), `)
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

// note adds the steps of one run. A step of an inline is many of the checker's steps, and one of them is enough.
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
		c.isReached[step] = c.isReached[step] || !unreached[match[1]] || match[3] == "-end-"
	}
}

// requireComplete fails if there is a step that no run has taken.
func (c *coverage) requireComplete(t *testing.T) {
	require.Greater(t, len(c.isReached), 100)
	for step, is := range c.isReached {
		assert.True(t, is, "no run takes the step of line %s", step)
	}
}

type variant struct {
	macros string
	claim  bool
}

func TestEveryRunKeepsThePromises(t *testing.T) {
	for model, variants := range map[string][]variant{
		"line": {
			{"RATES", false}, {"RATES STEPS", false}, {"RATES CALM", true},
			{"LEASES", false}, {"LEASES STEPS", false}, {"LEASES CALM", true},
			{"WINDOW", false}, {"WINDOW CLUSTER", false}, {"WINDOW CALM", true},
			{"MIXED CALM", false}, {"MIXED CALM", true},
		},
		"listeners": {{"", false}},
	} {
		t.Run(model, func(t *testing.T) {
			covered, whole := coverage{isReached: map[string]bool{}}, 0
			for _, v := range variants {
				name := strings.ReplaceAll(v.macros, " ", "-")
				if v.claim {
					name += "-everybody-is-done"
				} else {
					whole++
				}
				t.Run(name, func(t *testing.T) {
					spin(t, model)
					output, steps := check(t, model, v.claim, strings.Fields(v.macros)...)
					requireHolds(t, output)
					if !v.claim {
						covered.note(output, steps)
					}
				})
			}
			// After all of the runs, unless only some were asked for.
			t.Cleanup(func() {
				if covered.runs == whole {
					covered.requireComplete(t)
				}
			})
		})
	}
}

// Each model that is broken in one place has a run that breaks the promise. Those of V010 are as version 0.1.0 was.
func TestEveryBrokenModelIsFoundOut(t *testing.T) {
	for model, broken := range map[string]map[string]string{
		"line": {
			"RATES V010_LOST":        "nobodyIsLate",
			"RATES V010_SPIN":        "loopSleeps",
			"RATES V010_NESTED":      "everybodyInTheirLine",
			"RATES V010_PAUSE":       "nobodyIsLate",
			"RATES NO_LAPSE":         "neverTooMany",
			"RATES NO_ORDER":         "nobodyIsSkipped",
			"RATES STEPS NO_STEP":    "nobodyIsLate",
			"RATES NO_SEND_AWAY":     "nobodyStaysOnAReplica",
			"LEASES NO_RECALL":       "nobodyIsForgotten",
			"LEASES NO_COUNT":        "nobodyIsForgotten",
			"LEASES NO_AHEAD":        "nobodyIsSkipped",
			"LEASES NO_TELL":         "nobodyIsForgotten",
			"LEASES NO_OWN_CHANGE":   "nobodyIsForgotten",
			"LEASES NO_RELEASE":      "nobodyIsForgotten",
			"WINDOW CLUSTER NO_LOOK": "lookIsKept",
		},
		"listeners": {
			"V010_SAVE":  "nobodyIsSentACall",
			"V010_LATCH": "fastPathComesBack",
			"NO_FORK":    "nobodyIsSentACall",
			"NO_UNIT":    "nobodyIsSentACall",
			"SHORT_LOOK": "nobodyIsSentACall",
		},
	} {
		for macros, promise := range broken {
			t.Run(model+"-"+strings.ReplaceAll(macros, " ", "-"), func(t *testing.T) {
				spin(t, model)
				output, _ := check(t, model, false, strings.Fields(macros)...)
				assert.Contains(t, output, "assertion violated "+promise+" ", "%s", output)
				assert.Contains(t, output, "errors: 1\n")
			})
		}
	}
}
