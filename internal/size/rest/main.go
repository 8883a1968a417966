// Command rest tells what a run of go test at full size has to try, behind one at small size that tried the same
// packages and passed: the tests that ask for their size, and those that were skipped, or had parts skipped. All others
// did there what they would do here.
//
//	go run ./internal/size/rest FOLDER RUN PACKAGE...
//
// FOLDER is what scripts/test has recorded. RUN says what the tests depend on besides the source, such as the server;
// if the recorded run had another one, or anything is in doubt, everything is to be tried. What is printed are
// arguments of go test, each on a line.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: rest FOLDER RUN PACKAGE...")
		os.Exit(2)
	}
	args, all := os.Args[3:], 0
	r, err := read(os.Args[1], os.Args[2])
	if err == nil {
		args, all, err = r.rest()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "==> every test is run, also those that were at full size before:", err)
		args = os.Args[3:]
	} else {
		fmt.Fprintf(os.Stderr, "==> %d of %d tests asked for their size or were skipped before, and run now\n", strings.Count(args[len(args)-1], "|")+1, all)
	}
	for _, arg := range args {
		fmt.Println(arg)
	}
}

// recorded is what is known of a run at small size: the tests of each package, each with whether it is to run again.
type recorded map[string]map[string]bool

func read(folder, run string) (recorded, error) {
	before, err := os.ReadFile(filepath.Join(folder, "run"))
	if err != nil {
		return nil, err
	}
	if !slices.Equal(strings.Fields(string(before)), strings.Fields(run)) {
		return nil, fmt.Errorf("that was another run: %q, and this is %q", before, run)
	}
	results, err := os.Open(filepath.Join(folder, "results.json"))
	if err != nil {
		return nil, err
	}
	defer results.Close()
	r, err := readResults(results)
	if err != nil {
		return nil, err
	}
	asked, err := os.ReadFile(filepath.Join(folder, "asked"))
	if err != nil {
		return nil, err
	}
	return r, r.ask(string(asked))
}

// readResults reads what go test -json prints, or of that the lines that tell how tests and packages have ended.
func readResults(from io.Reader) (recorded, error) {
	r := recorded{}
	passed := map[string]bool{} // packages
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("the results end in the middle of a line: %w", err)
		}
		var event struct{ Action, Package, Test string }
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, err
		}
		if strings.HasSuffix(event.Action, "fail") {
			return nil, fmt.Errorf("%s %s failed", event.Package, event.Test)
		}
		if event.Package == "" {
			continue
		}
		if r[event.Package] == nil {
			r[event.Package] = map[string]bool{}
		}
		name, _, _ := strings.Cut(event.Test, "/")
		switch isEnd := event.Action == "pass" || event.Action == "skip"; {
		case event.Test == "":
			passed[event.Package] = passed[event.Package] || isEnd
		case isEnd:
			r[event.Package][name] = r[event.Package][name] || event.Action == "skip"
		}
	}
	for name := range r {
		if !passed[name] {
			return nil, fmt.Errorf("the tests of %s have not ended", name)
		}
	}
	return r, nil
}

// ask marks the tests that asked for their size. A line without a test stands for all of a package.
func (r recorded) ask(lines string) error {
	for line := range strings.Lines(lines) {
		name, test, isOne := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		tests, isKnown := r[name]
		switch {
		case !isKnown:
			return fmt.Errorf("%q asked for its size, and no such package was tested", name)
		case !isOne && len(tests) == 0:
			return fmt.Errorf("%s asked for its size, and none of its tests ran", name)
		case !isOne:
			for test := range tests {
				tests[test] = true
			}
		default:
			if _, isKnown := tests[test]; !isKnown {
				return fmt.Errorf("%s of %s asked for its size, and no such test ended", test, name)
			}
			tests[test] = true
		}
	}
	return nil
}

// Linux takes 128 KiB.
const longest = 100_000

// rest returns arguments of go test, and how many tests there are. A name is that of a test in any of the packages:
// some run again for the name that they share.
func (r recorded) rest() (args []string, all int, err error) {
	names := map[string]bool{}
	for name, tests := range r {
		all += len(tests)
		isAgain := false
		for test, again := range tests {
			if again {
				isAgain, names[test] = true, true
			}
		}
		if isAgain {
			args = append(args, name)
		}
	}
	if len(args) == 0 {
		return nil, all, errors.New("none was smaller before")
	}
	run := "^(" + strings.Join(slices.Sorted(maps.Keys(names)), "|") + ")$"
	if len(run) > longest {
		return nil, all, fmt.Errorf("%d names are more than fit into an argument", len(names))
	}
	slices.Sort(args)
	return append(args, "-run", run), all, nil
}
