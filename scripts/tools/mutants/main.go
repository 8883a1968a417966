// mutants reads what gremlins found and holds it to the list of mutants that no test can kill:
//
//	mutants LIST SOURCE RESULT.json...
//
// A result has the name of its package, with _ for /. LIST is as in package mutantlist.
//
// It fails for each survivor that is not listed, and for each line whose mutant is killed or not there.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"log"
	"os"
	"path/filepath"
	"strings"

	"redis-throttle/scripts/tools/mutantlist"
)

type result struct {
	Files []struct {
		Name      string `json:"file_name"`
		Mutations []struct {
			Type, Status string
			Line, Column int
		}
	}
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("error: ")
	if len(os.Args) < 4 {
		log.Fatal("usage: mutants LIST SOURCE RESULT.json...")
	}
	names, err := mutantlist.Read(os.Args[1])
	check(err)
	listed := map[string]bool{}
	for _, name := range names {
		listed[name] = false
	}
	seen := map[string]bool{} // files that were looked at
	var problems []string
	fmt.Printf("%-16s %8s %8s %12s %8s\n", "", "mutants", "killed", "equivalent", "left")
	for _, path := range os.Args[3:] {
		var r result
		text, err := os.ReadFile(path)
		check(err)
		check(json.Unmarshal(text, &r))
		folder := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(path), ".json"), "_", "/")
		var all, killed, equivalent, left, notViable int
		for _, file := range r.Files {
			built, err := build.Default.MatchFile(filepath.Join(os.Args[2], folder), file.Name)
			check(err)
			if !built { // such as generate.go
				continue
			}
			file.Name = folder + "/" + file.Name
			seen[file.Name] = true
			source := readSource(filepath.Join(os.Args[2], file.Name))
			for _, m := range file.Mutations {
				// gremlins does not run mutants of constants and variables outside of functions, nor those that
				// do not compile.
				if m.Status == "NOT VIABLE" {
					notViable++
				}
				if m.Status == "NOT VIABLE" || m.Status == "SKIPPED" || m.Status == "NOT COVERED" && !source.inFunction(m.Line, m.Column) {
					continue
				}
				all++
				name := mutantlist.Name(file.Name, m.Type, source.marked(m.Line, m.Column))
				_, known := listed[name]
				switch {
				case m.Status == "KILLED" || m.Status == "TIMED OUT": // a loop without end is found by its timeout
					killed++
				case known:
					equivalent++
					listed[name] = true
				default:
					left++
					problems = append(problems, fmt.Sprintf("%s:%d: survives: %s", file.Name, m.Line, name))
				}
			}
		}
		if notViable >= all { // few are, so something else is wrong
			problems = append(problems, fmt.Sprintf("%s: %d mutants do not compile, %d do", folder, notViable, all))
		}
		fmt.Printf("%-16s %8d %7.1f%% %12d %8d\n", folder, all, 100*float64(killed)/float64(max(all-equivalent, 1)), equivalent, left)
	}
	for name, used := range listed {
		file, _, _ := strings.Cut(name, " | ")
		if seen[file] && !used {
			problems = append(problems, "listed, but killed or not there: "+name)
		}
	}
	for _, problem := range problems {
		fmt.Println(problem)
	}
	if len(problems) > 0 {
		log.Fatalf("%d mutants to be killed, or to be listed with the reason", len(problems))
	}
}

type source struct {
	lines  []string
	bodies [][2]token.Position
}

func readSource(path string) (s source) {
	text, err := os.ReadFile(path)
	check(err)
	s.lines = strings.Split(string(text), "\n")
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, 0)
	check(err)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return n.Tok != token.CONST // of functions, too
		case *ast.BlockStmt:
			s.bodies = append(s.bodies, [2]token.Position{set.Position(n.Pos()), set.Position(n.End())})
		}
		return true
	})
	return s
}

func (s source) inFunction(line, column int) bool {
	after := func(p token.Position) bool { return line > p.Line || line == p.Line && column >= p.Column }
	for _, body := range s.bodies {
		if after(body[0]) && !after(body[1]) {
			return true
		}
	}
	return false
}

// marked is a line with the operator at a column in « ».
func (s source) marked(line, column int) string {
	text := s.lines[line-1]
	at := column - 1
	end := at
	for end < len(text) && strings.ContainsRune("+-*/%<>=!&|^", rune(text[end])) {
		end++
	}
	if end == at { // a word, such as break
		for end < len(text) && text[end] >= 'a' && text[end] <= 'z' {
			end++
		}
	}
	return strings.TrimSpace(text[:at] + "«" + text[at:end] + "»" + text[end:])
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
