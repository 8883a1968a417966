// Package mutantlist reads the lists of mutants that do the same as the code.
//
// Each line of a list names one mutant: the file, the kind, the line of code with the changed part in « », and the
// reason why it is equivalent:
//
//	top/top.go | CONDITIONALS_BOUNDARY | if len(t.best) «<» n { | a reason
package mutantlist

import (
	"fmt"
	"os"
	"strings"
)

const separator = " | "

// Name is what a list calls a mutant.
func Name(file, kind, marked string) string {
	return strings.Join([]string{file, kind, marked}, separator)
}

// Read returns the names of the mutants that are listed.
func Read(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		end := strings.LastIndex(line, separator)
		if end < 0 || strings.Count(line[:end], separator) < 2 || strings.TrimSpace(line[end:]) == "|" {
			return nil, fmt.Errorf("%s:%d: file | kind | line | reason", path, i+1)
		}
		names = append(names, line[:end])
	}
	return names, nil
}
