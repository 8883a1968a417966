package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spdx/tools-golang/json"
)

// Any binary of Go does: this test's own is made of modules that nobody looked at, and
// the program that go build makes of a file without imports is of the standard library.
func TestAModuleNobodyLookedAtStopsTheRelease(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readBinary(own); err == nil || !strings.Contains(err.Error(), "nobody has looked at the license of") {
		t.Fatalf("readBinary of a program that links spdx: %v", err)
	}
}

func TestTheDocumentListsWhatIsLinked(t *testing.T) {
	path := buildHello(t)
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	t.Setenv("VERSION", "1.2.3")
	var out bytes.Buffer
	if err := writeSPDX(&out, path, "hello"); err != nil {
		t.Fatal(err)
	}
	first := out.String()
	doc, err := json.Read(&out)
	if err != nil {
		t.Fatal(err)
	}
	if doc.CreationInfo.Created != "2023-11-14T22:13:20Z" {
		t.Errorf("created %s", doc.CreationInfo.Created)
	}
	var names []string
	for _, p := range doc.Packages {
		names = append(names, p.PackageName+" "+p.PackageVersion)
	}
	want := "hello 1.2.3, std " + strings.TrimPrefix(runtime.Version(), "go")
	if got := strings.Join(names, ", "); got != want {
		t.Errorf("packages: %s, want %s", got, want)
	}
	if err := writeSPDX(&out, path, "hello"); err != nil || out.String() != first {
		t.Errorf("a second document of the same file differs (%v)", err)
	}
}

func TestTheLicenseOfTheStandardLibraryIsAmongTheTexts(t *testing.T) {
	var out bytes.Buffer
	if err := writeLicenses(&out, "hello", []string{buildHello(t), buildHello(t)}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "The Go Authors"); n == 0 || strings.Count(out.String(), "(BSD-3-Clause)") != 1 {
		t.Errorf("the standard library's license should be there once:\n%s", out.String())
	}
}

func buildHello(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module hello\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", "hello", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "hello")
}
