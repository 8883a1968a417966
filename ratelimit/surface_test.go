package ratelimit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mostIdentifiers is how many names a reader of this package has to learn at most. It was 100 before results named
// their keys beside the indexes and a key could be reset, as in the clients of the other languages, and 103 before
// policies. VerbDenied is for layers of others that remember denials.
const mostIdentifiers = 109

// If you add a name to this package, look for one that can go, or for the package beside it where the name belongs.
func TestThePackageIsSmall(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var names []string
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
		require.NoError(t, err)
		ast.FileExports(file) // which leaves methods and fields of exported types
		ast.Inspect(file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil || ast.IsExported(strings.TrimPrefix(types.ExprString(n.Recv.List[0].Type), "*")) {
					names = append(names, n.Name.Name)
				}
				return false
			case *ast.ValueSpec:
				for _, name := range n.Names {
					names = append(names, name.Name)
				}
				return false
			case *ast.TypeSpec:
				names = append(names, n.Name.Name)
			case *ast.Field:
				for _, name := range n.Names {
					names = append(names, name.Name)
				}
				return false
			}
			return true
		})
	}
	assert.LessOrEqual(t, len(names), mostIdentifiers, strings.Join(names, " "))
	t.Log(len(names), "exported identifiers")
	assert.Subset(t, names, []string{"Limiter", "Decide", "Verb", "Err", "VerbLimit"}, "they are counted")
}
