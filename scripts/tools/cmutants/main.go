// cmutants breaks the C of the bridge in places drawn at random, one at a time, and checks that a test against a server
// fails:
//
//	cmutants [-seed n] [-n count] [-from i] [-only file:line] LIST SOURCE OUT TESTS...
//
// SOURCE is a copy of what the module is built from, which it changes. TESTS are the compiled packages of tests; they
// run in the current folder, one after the other. LIST has the mutants that do the same as the code (package mutantlist); they are not run. The modules
// and the output of the tests go to OUT.
//
// It fails if a mutant survives, if a line of LIST names no mutant, and if there is nothing to try.
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"modernc.org/cc/v4"

	"redis-throttle/scripts/tools/mutantlist"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("error: ")
	seed := flag.Uint64("seed", 1, "what the draw depends on")
	count := flag.Int("n", 20, "how many mutants to draw")
	from := flag.Int("from", 1, "the first of them to try: goes on where an earlier run ended")
	only := flag.String("only", "", "all mutants of one line instead, such as module/line.c:43, or of one file")
	flag.Parse()
	if flag.NArg() < 4 {
		log.Fatal("usage: cmutants [-seed n] [-n count] [-from i] [-only file:line] LIST SOURCE OUT TESTS...")
	}
	b := &bench{source: absolute(flag.Arg(1)), out: absolute(flag.Arg(2))}
	for _, path := range flag.Args()[3:] {
		b.tests = append(b.tests, absolute(path))
	}
	all, err := findAll(b.source, b.out)
	check(err)
	listed, err := mutantlist.Read(flag.Arg(0))
	check(err)
	var problems []string
	for _, name := range listed {
		if !slices.ContainsFunc(all, func(m mutant) bool { return m.name == name }) {
			problems = append(problems, "listed, but not there: "+name)
		}
	}

	drawn := draw(all, *seed, *count)
	if *only != "" {
		drawn = slices.DeleteFunc(all, func(m mutant) bool { return m.file != *only && fmt.Sprint(m.file, ":", m.line) != *only })
	}
	fmt.Printf("%d of %d mutants, seed %d\n", len(drawn), len(all), *seed)
	if len(drawn) < *from {
		log.Fatal("no mutant to try: -only has to name a line with one, and -from one of those that are drawn")
	}
	for i, m := range drawn {
		fmt.Printf("%4d %s:%d %s -> %q\n", i+1, m.file, m.line, m.name, m.text)
	}
	check(b.unchanged())

	var notViable, known, killed, left int
	for i, m := range drawn {
		if i+1 < *from {
			continue
		}
		begun := time.Now()
		verdict := "equivalent"
		survives, viable := false, true
		if !slices.Contains(listed, m.name) {
			verdict, survives, viable = b.try(i+1, m)
		}
		switch {
		case !viable:
			notViable++
		case survives:
			left++
			problems = append(problems, fmt.Sprintf("%s:%d: survives: %s -> %q", m.file, m.line, m.name, m.text))
		case verdict == "equivalent":
			known++
		default:
			killed++
		}
		fmt.Printf("%4d %s:%d %s: %s (%.0f s)\n", i+1, m.file, m.line, m.kind, verdict, time.Since(begun).Seconds())
	}
	fmt.Printf("%d tried: %d not viable, %d equivalent, %d killed, %d left; killed of those that count: %.1f%%\n",
		notViable+known+killed+left, notViable, known, killed, left, 100*float64(killed)/float64(max(killed+left, 1)))
	for _, problem := range problems {
		fmt.Println(problem)
	}
	if len(problems) > 0 {
		log.Fatalf("%d mutants to be killed, or to be listed with the reason", len(problems))
	}
}

// draw returns n mutants at random, the same for the same seed and the same code.
func draw(all []mutant, seed uint64, n int) []mutant {
	drawn := slices.Clone(all)
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	return drawn[:min(n, len(drawn))]
}

// findAll returns the mutants of all files of the module, in order.
func findAll(source, out string) (all []mutant, err error) {
	config, err := cc.NewConfig("", "")
	if err != nil {
		return nil, err
	}
	// cgo writes this file with the declarations of what Go exports, of which the C is not told here.
	exports := filepath.Join(out, "include")
	check(os.MkdirAll(exports, 0o755))
	check(os.WriteFile(filepath.Join(exports, "_cgo_export.h"), nil, 0o644))
	config.IncludePaths = append(config.IncludePaths, "", filepath.Join(source, "module"), exports)
	paths, err := files(source)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		found, err := find(config, source, strings.TrimPrefix(path, source+"/"))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s/module: no C to mutate", source)
	}
	return all, nil
}

// files are the files of the module that hold C to mutate. Headers have what is inlined.
func files(root string) (paths []string, err error) {
	for _, pattern := range []string{"*.c", "*.h"} {
		found, err := filepath.Glob(filepath.Join(root, "module", pattern))
		if err != nil {
			return nil, err
		}
		paths = append(paths, found...)
	}
	return paths, nil
}

func absolute(path string) string {
	path, err := filepath.Abs(path)
	check(err)
	return path
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
