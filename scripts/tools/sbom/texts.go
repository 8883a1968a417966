package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// writeLicenses writes the license and notice files of everything that is linked into the binaries, each
// module once. Users know the binaries by name.
func writeLicenses(w io.Writer, name string, binaries []string) error {
	var all []linked
	for _, path := range binaries {
		b, err := readBinary(path)
		if err != nil {
			return err
		}
		all = append(all, b.modules...)
	}
	slices.SortFunc(all, byPath)
	fmt.Fprintln(w, name+" is linked with the following, each under its own license.")
	for _, m := range slices.Compact(all) {
		texts, err := licenseTexts(m)
		if err != nil {
			return err
		}
		name := m.path + " " + m.version
		if m.path == goStandardLibrary {
			name = "the Go standard library and runtime " + m.version
		}
		fmt.Fprintf(w, "\n%s\n%s (%s)\n%[1]s\n\n%[4]s", strings.Repeat("=", 80), name, m.license, texts)
	}
	return nil
}

// licenseTexts reads the files that a license asks to be passed on: the license itself
// and, with some, a notice.
func licenseTexts(m linked) (string, error) {
	dir, err := sourceDir(m)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, pattern := range []string{"LICENSE*", "LICENCE*", "COPYING*", "NOTICE*"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			texts = append(texts, strings.Trim(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")+"\n")
		}
	}
	if texts == nil {
		return "", fmt.Errorf("%s %s has no license file", m.path, m.version)
	}
	return strings.Join(texts, "\n"), nil
}

// sourceDir is where the sources are that were linked.
func sourceDir(m linked) (string, error) {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", m.path+"@"+m.version)
	if m.path == goStandardLibrary {
		list = exec.Command("go", "env", "GOROOT")
	}
	list.Stderr = os.Stderr
	dir, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", list, err)
	}
	if len(strings.TrimSpace(string(dir))) == 0 {
		return "", fmt.Errorf("%s %s is not in the module cache: run go mod download", m.path, m.version)
	}
	return strings.TrimSpace(string(dir)), nil
}
