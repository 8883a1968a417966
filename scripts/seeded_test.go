package scripts_test

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// seeds returns SEED and RAPID_SEED as a program sees them that scripts/seeded runs.
func seeds(t *testing.T, environment ...string) []string {
	t.Helper()
	cmd := exec.Command("./seeded", "printenv", "SEED", "RAPID_SEED")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "SEED=") || strings.HasPrefix(v, "RAPID_SEED=")
	})
	cmd.Env = append(cmd.Env, environment...)
	out, err := cmd.Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}

func TestTheSeedFollowsFromTheCommit(t *testing.T) {
	t.Parallel()
	commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Skipf("this is no checkout: %v", err)
	}
	want, err := strconv.ParseUint(string(commit[:15]), 16, 64)
	require.NoError(t, err)
	require.Equal(t, []string{strconv.FormatUint(want, 10), strconv.FormatUint(want, 10)}, seeds(t))
}

func TestAGivenSeedIsKept(t *testing.T) {
	t.Parallel()
	for _, seed := range []string{"0", "42", "18446744073709551615"} {
		require.Equal(t, []string{seed, seed}, seeds(t, "SEED="+seed))
	}
}
