package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

var (
	installs = regexp.MustCompile(`\b(?:npm (?:install|i)|npx|yarn add|pnpm add|pip install|uv add|poetry add)((?: +[^\s` + "`" + `]+)+)`)
	// ours come from files, or by a scope that nobody else can take.
	ours = regexp.MustCompile(`^['"]?(?:\.{0,2}/\S+|@redis-throttle/\S+|[\w.-]+\.(?:whl|tgz|tar\.gz))['"]?$`)
	// theirs are packages of others that pages mean.
	theirs = []string{"redis", "ioredis"}
)

// A name that is nobody's in a registry can be taken by anybody, and then everyone who follows a page runs their
// program.
func TestPagesInstallNoNameThatIsNotOurs(t *testing.T) {
	t.Parallel()
	found := 0
	for path, text := range everyPage(t) {
		for _, command := range installs.FindAllStringSubmatch(text, -1) {
			found++
			if strings.Contains(command[0], "npx --no ") || strings.Contains(command[0], "--no-index") { // which fetch nothing
				continue
			}
			for _, name := range strings.Fields(command[1]) {
				if !strings.HasPrefix(name, "-") && !ours.MatchString(name) && !slices.Contains(theirs, name) {
					t.Errorf("%s: %q installs %s from a registry, which may be anybody's", path, command[0], name)
				}
			}
		}
	}
	assert.GreaterOrEqual(t, found, 4)
}
