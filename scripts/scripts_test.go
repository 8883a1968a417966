// Package scripts tests scripts whose failure nobody would notice.
package scripts_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// show is a target whose recipe hands ARGS on as those of the Makefile do, to a program that
// prints each argument in brackets.
const show = `show: ; @scripts/with-args printf '[%s]' first`

func makeShow(t *testing.T, args string, environment ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("make", "--silent", "--eval", show, "show")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), environment...)
	if environment == nil {
		cmd.Args = append(cmd.Args, "ARGS="+args)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestArgsReachAProgramAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                          "[first]",
		"-run A|B":                  "[first][-run][A|B]",
		"-run ^(A|B)$|C$":           "[first][-run][^(A|B)$|C$]",
		"-run 'A B' -v":             "[first][-run][A B][-v]",
		`-run "A'B"`:                "[first][-run][A'B]",
		"a; echo b && $(echo c) $$": "[first][a;][echo][b][&&][$(echo][c)][$$]",
		"* > x `echo b` # c":        "[first][*][>][x][`echo][b`][#][c]",
	} {
		got, err := makeShow(t, args)
		require.NoError(t, err, "%s: %s", args, got)
		assert.Equal(t, want, got, "make show ARGS=%s", args)
		got, err = makeShow(t, args, "ARGS="+args)
		require.NoError(t, err, "%s: %s", args, got)
		assert.Equal(t, want, got, "ARGS=%s make show", args)
	}
	out, err := makeShow(t, "-run 'A")
	require.Error(t, err)
	assert.Contains(t, out, "ARGS has a quote without its other half: -run 'A")
}

// What a recipe spells out, the shell reads.
func TestRecipesLeaveWhatPeopleWriteInTheEnvironment(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../Makefile")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		for _, name := range []string{"ARGS", "SERVER", "PEERS", "PORT"} {
			assert.NotContains(t, line, "$("+name+")")
		}
	}
}
