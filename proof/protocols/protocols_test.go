// Package protocols has small models of what the module does beside deciding: who waits in a line, who is let in and
// who listens. The model checker spin follows every run of each.
package protocols

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
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
	// A model with few states to look at is compiled longer than it runs.
	flags, search := []string{"-w", "-DMEMLIM=2000"}, []string{"-m40000"}
	if len(macros) == 0 {
		flags = append(flags, "-O1")
	}
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

// requireReached fails where there is a step that no run has taken. A step of an inline is many of the checker's steps, of which
// one is enough.
func requireReached(t *testing.T, output, steps string) {
	t.Helper()
	unreached := map[string]bool{}
	for _, match := range unreachedPattern.FindAllStringSubmatch(output, -1) {
		unreached[match[1]] = true
	}
	isReached := map[string]bool{}
	for _, match := range stepPattern.FindAllStringSubmatch(steps, -1) {
		step := match[2] + ": " + match[3]
		isReached[step] = isReached[step] || !unreached[match[1]] || match[3] == "-end-"
	}
	require.Greater(t, len(isReached), 100)
	for step, is := range isReached {
		assert.True(t, is, "no run takes the step of line %s", step)
	}
}

func TestEveryRunKeepsThePromises(t *testing.T) {
	for _, tt := range []struct {
		model  string
		claim  bool
		macros []string
	}{
		{"wait", false, nil},
		{"wait", true, []string{"CALM"}},
		{"turns", false, nil},
		{"turns", false, []string{"WINDOW"}},
		{"turns", true, []string{"CALM"}},
		{"turns", true, []string{"CALM", "WINDOW"}},
		{"listeners", false, nil},
	} {
		name := strings.Join(append([]string{tt.model}, tt.macros...), "-")
		if tt.claim {
			name += "-everybody-is-done"
		}
		t.Run(name, func(t *testing.T) {
			spin(t, tt.model)
			output, steps := check(t, tt.model, tt.claim, tt.macros...)
			requireHolds(t, output)
			if tt.macros == nil { // a variant has steps that it does not need
				requireReached(t, output, steps)
			}
		})
	}
}

// Each model that is broken in one place has a run that breaks the promise. Those of V010 are as version 0.1.0 was.
func TestEveryBrokenModelIsFoundOut(t *testing.T) {
	for model, broken := range map[string]map[string]string{
		"wait": {
			"V010_LOST":   "nobodyIsLate",
			"V010_SPIN":   "loopSleeps",
			"V010_NESTED": "everybodyInTheirLine",
			"V010_PAUSE":  "nobodyIsLate",
			"NO_LAPSE":    "neverTooMany",
			"NO_ORDER":    "nobodyIsSkipped",
		},
		"turns": {
			"NO_RECALL": "nobodyIsForgotten",
			"NO_COUNT":  "nobodyIsForgotten",
			"NO_AHEAD":  "nobodyIsSkipped",
			"NO_TELL":   "nobodyIsForgotten",
		},
		"listeners": {
			"V010_SAVE":  "nobodyIsSentACall",
			"V010_LATCH": "fastPathComesBack",
			"NO_FORK":    "nobodyIsSentACall",
			"NO_UNIT":    "nobodyIsSentACall",
			"SHORT_LOOK": "nobodyIsSentACall",
		},
	} {
		for macro, promise := range broken {
			t.Run(model+"-"+macro, func(t *testing.T) {
				spin(t, model)
				output, _ := check(t, model, false, macro)
				assert.Contains(t, output, "assertion violated "+promise+" ", "%s", output)
				assert.Contains(t, output, "errors: 1\n")
			})
		}
	}
}
