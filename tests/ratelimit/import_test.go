package ratelimit_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"

	"redis-throttle/internal/size"
	"redis-throttle/tests/server"
)

// appOfTheReadme is an empty folder beside a copy of the project, with the workspace of the README, and sh runs
// commands in a folder.
func appOfTheReadme(t *testing.T) (root, app string, sh func(dir, command string) string) {
	t.Helper()
	size.NeedsFull(t)
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.Symlink(root, filepath.Join(folder, "redis-throttle")))
	app = filepath.Join(folder, "app")
	require.NoError(t, os.Mkdir(app, 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	sh = func(dir, command string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, "bash", "-ec", command)
		cmd.Dir = dir
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOWORK=") || strings.HasPrefix(v, "GOFLAGS=") })
		return strings.TrimSpace(printedBy(t, cmd))
	}
	sh(app, "go mod init example.com/app\n"+installOfTheReadme(t, root))
	return root, app, sh
}

// A program imports all packages of the client, as the README says, together with a library that module/ replaces by an
// empty one.
func TestEveryPackageCanBeImportedAsTheReadmeSays(t *testing.T) {
	t.Parallel()
	root, app, sh := appOfTheReadme(t)
	packages, modules := packagesOfTheClient(t, root)
	require.Contains(t, packages, "redis-throttle/ratelimit/guard")
	require.Contains(t, modules, "ratelimit/grpclimit")
	for _, module := range modules {
		sh(app, "go work use ../redis-throttle/"+module) // it does no harm when it is there
	}
	cobra := sh(filepath.Join(root, "scripts/tools"), "GOWORK=off go list -m -f '{{.Version}}' github.com/spf13/cobra")
	sh(app, "go get github.com/spf13/cobra@"+cobra)
	program := "package main\n\nimport (\n\t\"fmt\"\n\n\t\"github.com/spf13/cobra\"\n\n"
	for _, path := range packages {
		program += fmt.Sprintf("\t_ %q\n", path)
	}
	program += ")\n\nfunc main() { fmt.Println((&cobra.Command{Use: \"app [flags]\"}).Name()) }\n"
	require.NoError(t, os.WriteFile(filepath.Join(app, "main.go"), []byte(program), 0o644))
	assert.Equal(t, "app", sh(app, "go run ."))

	graph := strings.Split(sh(app, "go list -m -f '{{.Path}} {{.Version}} {{.Replace}}' all"), "\n")
	assert.Contains(t, graph, "github.com/spf13/cobra "+cobra+" <nil>", "the real one")
	for _, foreign := range []string{"go-rm", "urfave/cli", "creack/pty", "porcupine", "goldmark", "beego"} {
		assert.NotContains(t, strings.Join(graph, "\n"), foreign)
	}
}

// The workspace of README can be vendored: no package of its modules needs, not even for its tests, a module of the
// project that is not there.
func TestTheWorkspaceOfTheReadmeCanBeVendored(t *testing.T) {
	t.Parallel()
	_, app, sh := appOfTheReadme(t)
	require.NoError(t, os.WriteFile(filepath.Join(app, "main.go"), []byte("package main\n\nimport _ \"redis-throttle/ratelimit/guard\"\n\nfunc main() { println(1) }\n"), 0o644))
	sh(app, "go work vendor && go run -mod=vendor .")
	assert.DirExists(t, filepath.Join(app, "vendor", "github.com", "redis", "go-redis"))
}

// installOfTheReadme is the block of commands by which a program finds the client.
func installOfTheReadme(t *testing.T, root string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "ratelimit/README.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "```sh\ngo work init")
	require.True(t, found)
	commands, _, _ := strings.Cut(rest, "```")
	return "go work init" + commands
}

// packagesOfTheClient are the import paths of the packages for users, and the folders with a go.mod.
func packagesOfTheClient(t *testing.T, root string) (packages, modules []string) {
	t.Helper()
	goMod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	project := modfile.ModulePath(goMod)
	require.NoError(t, fs.WalkDir(os.DirFS(root), "ratelimit", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "internal":
			return fs.SkipDir
		case d.Name() == "go.mod":
			modules = append(modules, filepath.Dir(path))
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			if p := project + "/" + filepath.Dir(path); !slices.Contains(packages, p) {
				packages = append(packages, p)
			}
		}
		return nil
	}))
	return packages, modules
}
