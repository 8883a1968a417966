package packaging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A release stops at a module whose license nobody has looked at. This says so when the module comes.
func TestTheLicenseOfEachLinkedModuleIsKnown(t *testing.T) {
	known, err := os.ReadFile("../scripts/tools/sbom/licenses.go")
	require.NoError(t, err)
	const ofOthers = "{{with .Module}}{{if not (or .Main .Replace)}}{{.Path}}{{end}}{{end}}" // the project's own modules replace each other
	for _, system := range []string{"linux", "darwin", "windows"} {
		programs := []string{"cmd/throttle-dev", "cmd/throttle-replay"}
		if system == "linux" {
			programs = append(programs, "gateway/throttle-gateway", "module/throttle")
		}
		for _, program := range programs {
			list := exec.Command("go", "list", "-deps", "-f", ofOthers, ".")
			list.Dir, list.Env = filepath.Join("..", program), append(os.Environ(), "GOWORK=off", "GOOS="+system)
			out, err := list.Output()
			require.NoError(t, err, program)
			modules := strings.Fields(string(out))
			require.NotEmpty(t, modules, program)
			for _, module := range modules {
				assert.True(t, strings.Contains(string(known), `"`+module+`":`), "%s has %s for %s: look at its license", program, module, system)
			}
		}
	}
}
