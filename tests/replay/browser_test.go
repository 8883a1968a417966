package replay_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/browser"
)

// page is a report in a browser.
type page struct {
	*browser.Browser
	t testing.TB
}

// open shows a file.
func open(t testing.TB, path string) *page {
	t.Helper()
	b := browser.Open(t, "file://"+path, "file:///")
	b.Ask("Browser.grantPermissions", map[string]any{"permissions": []string{"clipboardReadWrite", "clipboardSanitizedWrite"}}, nil)
	return &page{b, t}
}

// pageOf makes the page of a log, and the report that it shows.
func pageOf(t testing.TB, log string, args ...string) (path string, r curveReport) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "report.html")
	out, err := exec.Command(built(t), append(args, log, "--html", path, "--json", filepath.Join(dir, "report.json"))...).CombinedOutput()
	require.NoError(t, err, string(out))
	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	return path, r
}
