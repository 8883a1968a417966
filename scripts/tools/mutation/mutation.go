package mutation

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"redis-throttle/scripts/tools/mutantlist"
)

// Mutant is one change of a file: the bytes from Start to End become Text.
type Mutant struct {
	File, Kind string // the file from the root of the source
	Line       int
	Start, End int
	Text       string
	Name       string // as in the list
}

// Lines is where each line of a file begins.
type Lines struct {
	source string
	starts []int
}

// LinesOf returns the lines of a file.
func LinesOf(source string) Lines {
	l := Lines{source, []int{0}}
	for i, c := range source {
		if c == '\n' {
			l.starts = append(l.starts, i+1)
		}
	}
	return l
}

// Offset is the place of a line and column, which begin with 1.
func (l Lines) Offset(line, column int) int { return l.starts[line-1] + column - 1 }

// Mutant is the change of the bytes from start to end of a file. Of a statement of several lines, its name has the
// first.
func (l Lines) Mutant(file, kind string, start, end int, text string) Mutant {
	line, _ := slices.BinarySearch(l.starts, start+1)
	first := l.starts[line-1]
	last := first + strings.IndexByte(l.source[first:], '\n')
	shown := min(end, last)
	marked := strings.TrimSpace(l.source[first:start] + "«" + l.source[start:shown] + "»" + l.source[shown:last])
	return Mutant{file, kind, line, start, end, text, mutantlist.Name(file, kind, marked)}
}

// Flags holds what the command line says of the mutants: which to try, and the list of those that are equivalent.
type Flags struct {
	seed    *uint64
	n, from *int
	only    *string
	list    string
}

// Parse reads the command line, and returns what it says of the mutants and of the bench.
func Parse() (f Flags, b *Bench) {
	log.SetFlags(0)
	log.SetPrefix("error: ")
	f.seed = flag.Uint64("seed", 1, "what the draw depends on")
	f.n = flag.Int("n", 20, "how many mutants to draw")
	f.from = flag.Int("from", 1, "the first of them to try: goes on where an earlier run ended")
	f.only = flag.String("only", "", "all mutants of one line instead, such as module/line.c:43, or of one file")
	flag.Parse()
	if flag.NArg() < 4 {
		log.Fatal("usage: [-seed n] [-n count] [-from i] [-only file:line] LIST SOURCE OUT TESTS...")
	}
	f.list = flag.Arg(0)
	b = &Bench{Source: absolute(flag.Arg(1)), Out: absolute(flag.Arg(2))}
	for _, path := range flag.Args()[3:] {
		b.Tests = append(b.Tests, absolute(path))
	}
	return f, b
}

// Run draws some of all mutants and tries them. It ends the program with an error if one survives, if a line of the
// list names no mutant, and if there is nothing to try.
func (b *Bench) Run(f Flags, all []Mutant) {
	if len(all) == 0 {
		log.Fatalf("%s: no code to mutate", b.Source)
	}
	listed, err := mutantlist.Read(f.list)
	check(err)
	var problems []string
	for _, name := range listed {
		if !slices.ContainsFunc(all, func(m Mutant) bool { return m.Name == name }) {
			problems = append(problems, "listed, but not there: "+name)
		}
	}

	drawn := draw(all, *f.seed, *f.n)
	if *f.only != "" {
		drawn = slices.DeleteFunc(all, func(m Mutant) bool { return m.File != *f.only && fmt.Sprint(m.File, ":", m.Line) != *f.only })
	}
	fmt.Printf("%d of %d mutants, seed %d\n", len(drawn), len(all), *f.seed)
	if len(drawn) < *f.from {
		log.Fatal("no mutant to try: -only has to name a line with one, and -from one of those that are drawn")
	}
	for i, m := range drawn {
		fmt.Printf("%4d %s:%d %s -> %q\n", i+1, m.File, m.Line, m.Name, m.Text)
	}
	check(b.unchanged())

	var notViable, known, killed, left int
	for i, m := range drawn {
		if i+1 < *f.from {
			continue
		}
		begun := time.Now()
		verdict := "equivalent"
		survives, viable := false, true
		if !slices.Contains(listed, m.Name) {
			verdict, survives, viable = b.try(i+1, m)
		}
		switch {
		case !viable:
			notViable++
		case survives:
			left++
			problems = append(problems, fmt.Sprintf("%s:%d: survives: %s -> %q", m.File, m.Line, m.Name, m.Text))
		case verdict == "equivalent":
			known++
		default:
			killed++
		}
		fmt.Printf("%4d %s:%d %s: %s (%.0f s)\n", i+1, m.File, m.Line, m.Kind, verdict, time.Since(begun).Seconds())
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
func draw(all []Mutant, seed uint64, n int) []Mutant {
	drawn := slices.Clone(all)
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	return drawn[:min(n, len(drawn))]
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
