package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each C file of the module has nearest tests. They are given by words, and some test has each word in its name.
func TestEachFileHasItsNearestTests(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	paths, err := files(root)
	check(err)
	for _, file := range paths {
		if name := "module/" + filepath.Base(file); nearest[name] == "" {
			t.Errorf("%s has no nearest tests", name)
		}
	}
	if len(nearest) != len(paths) {
		t.Errorf("nearest tests of %d files, and there are %d", len(nearest), len(paths))
	}
	packages, err := os.ReadFile(filepath.Join(root, "scripts", "module-tests.sh"))
	check(err)
	var tests []string
	for _, folder := range regexp.MustCompile(`\./tests/\w+`).FindAllString(string(packages), -1) {
		found, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
		check(err)
		tests = append(tests, found...)
	}
	var names []string
	for _, file := range tests {
		text, err := os.ReadFile(file)
		check(err)
		for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			names = append(names, string(match[1]))
		}
	}
	all := strings.Join(names, " ")
	for file, words := range nearest {
		for _, word := range strings.Split(words, "|") {
			if !strings.Contains(all, word) {
				t.Errorf("%s: no test has %s in its name", file, word)
			}
		}
	}
}
