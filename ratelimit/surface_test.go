package ratelimit_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mostIdentifiers is how many names a reader of this package has to learn at most. It was 100 before results named their keys beside the
// indexes and a key could be reset, as in the clients of the other languages.
const mostIdentifiers = 103

// If you add a name to this package, look for one that can go, or for the package beside it where the name belongs.
func TestThePackageIsSmall(t *testing.T) {
	t.Parallel()
	names := exported(t, ".", "redis-throttle/ratelimit")
	assert.LessOrEqual(t, len(names), mostIdentifiers, strings.Join(names, " "))
	t.Log(len(names), "exported identifiers")
	for _, known := range []string{"Limiter", "Limiter.Decide", "Call.Verb", "Decider.Decide", "Result.Err", "VerbLimit"} {
		assert.Contains(t, names, known, "it is counted")
	}
}

// none imports no package.
type none struct{}

func (none) Import(string) (*types.Package, error) { return nil, errors.New("not read") }

// exported are the exported names of a package: constants, variables, functions and types, with the methods and the fields
// of these.
func exported(t *testing.T, folder, path string) (names []string) {
	t.Helper()
	fset := token.NewFileSet()
	sources, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	var files []*ast.File
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, source, nil, 0)
		require.NoError(t, err)
		files = append(files, file)
	}
	// What other packages hold makes no name here, so they need not be read.
	pkg, _ := (&types.Config{Importer: none{}, Error: func(error) {}}).Check(path, fset, files, nil)
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		names = append(names, name)
		typeName, ok := object.(*types.TypeName)
		if !ok {
			continue
		}
		named, ok := typeName.Type().(*types.Named)
		require.True(t, ok, name)
		for method := range named.Methods() {
			if method.Exported() {
				names = append(names, name+"."+method.Name())
			}
		}
		switch under := named.Underlying().(type) {
		case *types.Struct:
			for field := range under.Fields() {
				if field.Exported() {
					names = append(names, name+"."+field.Name())
				}
			}
		case *types.Interface:
			for method := range under.Methods() {
				names = append(names, name+"."+method.Name())
			}
		}
	}
	sort.Strings(names)
	return names
}
