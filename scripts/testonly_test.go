package scripts_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
)

// shipped are the packages of the limiter, and callers the packages that users run them by.
var (
	shipped = []string{"gcra", "limiter/window", "limiter/fixed", "limiter/calendar", "limiter/stack", "limiter/lease", "limiter/line", "limiter/top", "limiter/command", "limiter/embedded"}
	callers = []string{"./module/...", "./ratelimit/...", "./ratelimit/guard/...", "./cmd/throttle-dev/..."}
)

// forPrograms is what other programs call, as tests do.
const forPrograms = "(*redis-throttle/limiter/embedded.Host)."

// source is a package as go list shows it.
type source struct {
	ImportPath, Dir, Export string
	GoFiles, CgoFiles       []string
	DepOnly                 bool
}

// list returns the packages of patterns, and everything that they import.
func list(t *testing.T, dir string, patterns ...string) (sources []source) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,CgoFiles,DepOnly"}, patterns...)...)
	cmd.Dir = dir
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	require.NoError(t, err, problem.String())
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var s source
		if err := d.Decode(&s); err == io.EOF {
			return sources
		} else {
			require.NoError(t, err)
		}
		sources = append(sources, s)
	}
}

// code is what packages declare and use, without their tests. Functions go by their full names: each package knows the others from
// their export data.
type code struct {
	fset       *token.FileSet
	declared   []*types.Func
	used       map[string]bool
	types      []types.Type
	interfaces map[*types.Interface]bool
}

// check reads a package. declares says whether its functions have to be called.
func (c *code) check(t *testing.T, s source, imports types.Importer, declares bool) {
	t.Helper()
	var files []*ast.File
	for _, name := range append(s.GoFiles, s.CgoFiles...) {
		file, err := parser.ParseFile(c.fset, filepath.Join(s.Dir, name), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
	}
	info := types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Importer: imports, FakeImportC: true}
	_, err := config.Check(s.ImportPath, c.fset, files, &info)
	require.NoError(t, err)
	for _, tv := range info.Types {
		c.note(tv.Type)
	}
	for _, object := range info.Uses {
		if f, ok := object.(*types.Func); ok {
			c.used[f.Origin().FullName()] = true
			for v := range f.Signature().Params().Variables() {
				c.note(v.Type())
			}
		}
	}
	for _, object := range info.Defs {
		switch object := object.(type) {
		case *types.TypeName:
			c.types = append(c.types, object.Type(), types.NewPointer(object.Type()))
		case *types.Func:
			if declares && object.Name() != "init" && object.Name() != "_" {
				c.declared = append(c.declared, object)
			}
		}
	}
}

func (c *code) note(of types.Type) {
	if of == nil {
		return
	}
	if i, ok := of.Underlying().(*types.Interface); ok {
		c.interfaces[i] = true
	}
}

// useByInterfaces notes the methods by which a type implements an interface: they are called as the interface's.
func (c *code) useByInterfaces() {
	for _, of := range c.types {
		for i := range c.interfaces {
			if names, ok := methodsOf(of, i); ok {
				for _, name := range names {
					c.used[name] = true
				}
			}
		}
	}
}

// methodsOf returns the methods by which a type implements an interface. Types are compared as they are written: the two may be known from
// different views of a package. Those of a constraint may be parameters, which stand for any type.
func methodsOf(of types.Type, i *types.Interface) (names []string, ok bool) {
	for m := range i.Methods() {
		own, _, _ := types.LookupFieldOrMethod(of, false, m.Pkg(), m.Name())
		f, ok := own.(*types.Func)
		if !ok || len(typesOf(f)) != len(typesOf(m)) || i.IsMethodSet() && !slices.Equal(typesOf(f), typesOf(m)) {
			return nil, false
		}
		names = append(names, f.Origin().FullName())
	}
	return names, true
}

func typesOf(f *types.Func) (names []string) {
	for _, tuple := range []*types.Tuple{f.Signature().Params(), f.Signature().Results()} {
		for v := range tuple.Variables() {
			names = append(names, types.TypeString(v.Type(), nil))
		}
		names = append(names, "")
	}
	return names
}

// testOnly returns the functions and methods of packages that no code but tests calls. dir is the folder of their module.
func testOnly(t *testing.T, dir string, packages, callers []string) (names []string) {
	t.Helper()
	var patterns []string
	for _, name := range packages {
		patterns = append(patterns, "./"+name)
	}
	sources := list(t, dir, append(patterns, callers...)...)
	exports := map[string]string{}
	for _, s := range sources {
		exports[s.ImportPath] = s.Export
	}
	c := code{fset: token.NewFileSet(), used: map[string]bool{}, interfaces: map[*types.Interface]bool{}}
	imports := importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	c.note(types.Universe.Lookup("error").Type())
	for _, s := range sources {
		if !s.DepOnly {
			c.check(t, s, imports, slices.Contains(packages, path.Base(s.ImportPath)))
		}
	}
	c.useByInterfaces()
	for _, f := range c.declared {
		if !c.used[f.FullName()] {
			names = append(names, f.FullName())
		}
	}
	slices.Sort(names)
	return names
}

// What ships is what is tested: no test exercises a shell that no server runs.
func TestNothingOfTheLimiterIsForTestsOnly(t *testing.T) {
	t.Parallel()
	size.NeedsFull(t)
	for _, name := range testOnly(t, "..", shipped, callers) {
		if !strings.HasPrefix(name, forPrograms) {
			assert.Fail(t, "for tests only: delete it, or declare it in a test", name)
		}
	}
}

func TestWhatIsForTestsOnlyIsFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.26\n",
		"idea/idea.go": `package idea
			import "sort"
			type T[V any] struct{ base }
			type base struct{}
			func (base) Called()        {}
			func (base) ByInterface(int) {}
			func (base) Tested()        {}
			func (T[V]) Generic()       {}
			type byName []string
			func (b byName) Len() int           { return len(b) }
			func (b byName) Less(i, j int) bool { return b[i] < b[j] }
			func (b byName) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
			type Problem struct{}
			func (Problem) Error() string { return "" }
			func Sort(names []string) { sort.Sort(byName(names)) }
			func helper()   {}
			func Exported() {}`,
		"idea/idea_test.go": `package idea
			import "testing"
			func TestAll(t *testing.T) { var v T[int]; v.Tested(); helper(); Exported() }`,
		"main/main.go": `package main
			import "m/idea"
			type by interface{ ByInterface(n int) }
			func main() { var v idea.T[int]; v.Called(); v.Generic(); by(v).ByInterface(1); idea.Sort(nil) }
			func notAsked() {}`,
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	assert.Equal(t, []string{"(m/idea.base).Tested", "m/idea.Exported", "m/idea.helper"}, testOnly(t, dir, []string{"idea"}, []string{"./main"}))
}
