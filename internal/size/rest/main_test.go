package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const packages = "redis-throttle/internal/size/rest/testdata/"

// small records a run at small size of packages of testdata.
func small(t *testing.T, names ...string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	args := []string{"test", "-short", "-json", "-vet=off", "-count=1"}
	for _, name := range names {
		args = append(args, packages+name)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "THROTTLE_ASKED="+filepath.Join(folder, "asked"), "THROTTLE_INSTALLED=")
	results, err := cmd.Output()
	require.NoError(t, err, string(results))
	write(t, folder, "results.json", string(results))
	write(t, folder, "run", "by Redis\n")
	return folder
}

func write(t *testing.T, folder, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
}

func rest(t *testing.T, folder string) (args []string, all int) {
	t.Helper()
	r, err := read(folder, "by Redis")
	require.NoError(t, err)
	args, all, err = r.rest()
	require.NoError(t, err)
	return args, all
}

func TestTheRestIsWhatAskedOrWasSkipped(t *testing.T) {
	t.Setenv("THROTTLE_INSTALLED", "") // with it, what is missing fails a test in place of skipping it
	args, all := rest(t, small(t, "some", "same", "wholemain", "wholebeside", "wholeonce"))
	assert.Equal(t, []string{
		packages + "some", packages + "wholebeside", packages + "wholemain", packages + "wholeonce", "-run",
		"^(Example|FuzzAsks|TestAgain|TestAlsoBeside|TestAsks|TestAsksInAPart|TestBeside|TestIsSkipped|TestLacks|TestNeedsFullInAPart|TestOfMain|TestOnce)$",
	}, args)
	assert.Equal(t, 17, all)

	out, err := exec.Command("go", append([]string{"test", "-v", "-vet=off", "-count=1"}, args...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	names, _, _ := strings.Cut(strings.TrimPrefix(args[len(args)-1], "^("), ")$")
	for name := range strings.SplitSeq(names, "|") {
		assert.Regexp(t, `(?m)^--- (PASS|SKIP): `+regexp.QuoteMeta(name)+` `, string(out))
	}
	assert.NotContains(t, string(out), "Same")
	assert.Contains(t, string(out), "--- PASS: TestNeedsFullInAPart/part")
}

func TestEverythingRunsIfAnythingIsInDoubt(t *testing.T) {
	before := small(t, "some", "wholemain")
	for name, c := range map[string]struct{ file, with, why string }{
		"another server":                    {"run", "by Valkey", "another run"},
		"no run":                            {"run", "", "no such file"},
		"no results":                        {"results.json", "", "no such file"},
		"no file of who asked":              {"asked", "", "no such file"},
		"a package that failed to build":    {"results.json", `{"Action":"build-fail","ImportPath":"a"}` + "\n", "failed"},
		"a test that failed":                {"results.json", `{"Action":"fail","Package":"a","Test":"TestA"}` + "\n", "a TestA failed"},
		"a package that has not ended":      {"results.json", `{"Action":"pass","Package":"a","Test":"TestA"}` + "\n", "have not ended"},
		"half a line":                       {"results.json", `{"Action":"pass",`, "middle of a line"},
		"no JSON":                           {"results.json", "PASS\n", "invalid character"},
		"a package that nobody tested":      {"asked", "a TestA\n", "no such package"},
		"a program that has no package":     {"asked", "? TestA\n", "no such package"},
		"a test that never ended":           {"asked", packages + "some TestB\n", "no such test"},
		"all of a package without any test": {"results.json", `{"Action":"skip","Package":"` + packages + `some"}` + "\n", "no such"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			require.NoError(t, os.CopyFS(folder, os.DirFS(before)))
			if write(t, folder, c.file, c.with); c.with == "" {
				require.NoError(t, os.Remove(filepath.Join(folder, c.file)))
			}
			_, err := read(folder, "by Redis")
			assert.ErrorContains(t, err, c.why)
		})
	}

	r, err := readResults(strings.NewReader(`{"Action":"skip","Package":"a"}` + "\n"))
	require.NoError(t, err)
	require.ErrorContains(t, r.ask("a\n"), "none of its tests ran")
	_, _, err = r.rest()
	require.ErrorContains(t, err, "none was smaller")

	_, _, err = recorded{"a": {strings.Repeat("A", longest): true}}.rest()
	assert.ErrorContains(t, err, "more than fit")
}

func TestNothingElseKnowsItsSize(t *testing.T) {
	cmd := exec.Command("git", "grep", "-lE", `testing\.Short\(|"test\.short"`, "--", "*.go", ":!internal/size/rest")
	cmd.Dir = "../../.."
	files, err := cmd.Output()
	require.NoError(t, err)
	assert.Equal(t, []string{
		"internal/size/asked.go",
		"internal/size/size.go",
		"tests/hosts/inside.go", // hands its size on to another process of the same test
	}, strings.Fields(string(files)), "a test asks internal/size, which notes it")
}
