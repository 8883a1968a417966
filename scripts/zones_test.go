package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/runnable"
)

// checkZones runs scripts/check-zones where apt knows a version of tzdata, or does not reach its mirror.
func checkZones(t *testing.T, candidate string, reachable bool, environment []string, args ...string) (output string, err error) {
	t.Helper()
	bin := t.TempDir()
	program := func(name, script string) {
		runnable.Write(t, filepath.Join(bin, name), "#!/bin/sh\n"+script+"\n")
	}
	update := "exit 0"
	if !reachable {
		update = "exit 100"
	}
	program("apt-get", `case "$*" in *update*) `+update+` ;; *) echo "$*" >&2; exit 1 ;; esac`)
	program("apt-cache", "echo '  Candidate: "+candidate+"'")
	program("dpkg-deb", "exit 1")
	cmd := exec.Command("./check-zones", args...)
	cmd.Env = append(append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "GITHUB_ACTIONS=", "OLD_ZONES="), environment...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestNewerTimeZonesAreAWarningAndFailARelease(t *testing.T) {
	t.Parallel()
	archive, err := os.ReadFile("../limiter/calendar/zones.zip")
	require.NoError(t, err)
	ours := string(archive[len(archive)-5:])
	const newer = "2099z-0+deb12u1"
	for _, tt := range []struct {
		name        string
		candidate   string
		reachable   bool
		environment []string
		args        []string
		says        string
		fails       bool
	}{
		{"newer", newer, true, nil, nil, "there are newer time zones: 2099z (tzdata " + newer + "), the module has " + ours, false},
		{"newer, on Ubuntu", "2099z-0ubuntu0.24.04", true, nil, nil, "there are newer time zones: 2099z", false},
		{"newer, in a workflow", newer, true, []string{"GITHUB_ACTIONS=true"}, nil, "::warning file=limiter/calendar/zones.zip::there are newer time zones: 2099z", false},
		{"newer, for a release", newer, true, nil, []string{"--strict"}, "error: a release has the newest time zones", true},
		{"newer, for an older release", newer, true, []string{"OLD_ZONES=1"}, []string{"--strict"}, "there are newer time zones: 2099z", false},
		{"older", "2025b-0+deb12u1", true, nil, []string{"--strict"}, "the time zones, " + ours + ", are newer than those of tzdata 2025b-0+deb12u1", false},
		{"no network", newer, false, nil, []string{"--strict"}, "is not known: the package lists cannot be fetched", false},
		{"no package", "(none)", true, nil, []string{"--strict"}, "is not known: the package tzdata has version (none)", false},
		{"the same, which cannot be compared", ours + "-1", true, nil, nil, "error: tzdata " + ours + "-1 cannot be fetched", true},
	} {
		out, err := checkZones(t, tt.candidate, tt.reachable, tt.environment, tt.args...)
		assert.Equal(t, tt.fails, err != nil, "%s: %s", tt.name, out)
		assert.Contains(t, out, tt.says, tt.name)
	}
}
