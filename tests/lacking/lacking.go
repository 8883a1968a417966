// Package lacking starts servers on which the module finds some functions of the module API missing, as on older servers.
package lacking

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
	"redis-throttle/tests/sharedlib"
)

//go:embed testdata/lacking.c
var source []byte

// Start runs a server with throttle's test build, which does not find these functions.
func Start(t testing.TB, functions ...string) *server.Server {
	t.Helper()
	path, err := server.CheckModulePath()
	require.NoError(t, err)
	library := sharedlib.Build(t, "lacking", source, fmt.Sprintf("-DMODULE=%q", path), fmt.Sprintf("-DFUNCTIONS=%q", " "+strings.Join(functions, " ")+" "), "-ldl")
	return server.Start(t, server.WithoutModule(), server.Config("loadmodule "+library))
}
