// luamutants breaks the function library in places drawn at random, one at a time, and checks that a test fails:
//
//	luamutants [-seed n] [-n count] [-from i] [-only file:line] LIST SOURCE OUT TESTS...
//
// SOURCE is a folder with a copy of the library, which it changes. TESTS are the compiled packages of tests; they run
// in the current folder, one after the other, with the library that THROTTLE_LIBRARY names. LIST has the mutants that
// do the same as the code (package mutantlist); they are not run. The output of the tests goes to OUT.
package main

import (
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/yuin/gopher-lua/parse"

	"redis-throttle/scripts/tools/mutation"
)

const library = "functions/throttle.lua"

// The examples find most, in a second. What they let pass, random calls beside the module have to find, and then all
// other tests.
const (
	examples = `^TestFunctionsDoWhatTheTranscriptsSay$/^functions$`
	turns    = `^(TestErrorsOfFunctionsAreThoseOfTheModule|TestFunctionsAndTheModuleTakeTurnsOnAKey)$`
)

func main() {
	flags, b := mutation.Parse()
	path := filepath.Join(b.Source, library)
	b.Args, b.Env, b.Built = []string{"-test.short"}, []string{"THROTTLE_LIBRARY=" + path}, []string{path}
	b.Build = func() ([]byte, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		_, script, _ := strings.Cut(string(text), "\n")
		_, err = parse.Parse(strings.NewReader(script), library)
		return nil, err
	}
	b.Stages = func(string) []mutation.Stage {
		return []mutation.Stage{
			{Run: examples, Timeout: "30s", IsCertain: true},
			{Run: turns, Timeout: "2m", IsCertain: true},
			{Skip: examples + "|" + turns, Timeout: "4m"},
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	all, err := find(library, string(text))
	if err != nil {
		log.Fatal(err)
	}
	b.Run(flags, all)
}
