package server

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
)

// Program is a server's executable.
type Program struct {
	Path         string
	Name         string // "Redis", "Valkey" or "throttle-dev", as it calls itself
	Major, Minor int
}

// IsValkey says whether it is Valkey and not Redis.
func (p Program) IsValkey() bool { return p.Name == "Valkey" }

// IsDev says whether it is throttle-dev, which has all commands of the module and is no server for production.
func (p Program) IsDev() bool { return p.Name == "throttle-dev" }

// AtLeast compares with the version of Redis whose features the program has. Every
// Valkey has those of Redis 7.2, where it began.
func (p Program) AtLeast(major, minor int) bool {
	haveMajor, haveMinor := p.Major, p.Minor
	if p.IsValkey() {
		haveMajor, haveMinor = 7, 2
	}
	return haveMajor > major || haveMajor == major && haveMinor >= minor
}

// NeedsCountedKeys skips a test of commands whose keys follow their number, on servers older than Redis 7.0: a module
// could not declare such keys.
func (p Program) NeedsCountedKeys(t testing.TB) {
	t.Helper()
	if !p.AtLeast(7, 0) {
		t.Skip("a module can declare keys that follow their number since Redis 7.0")
	}
}

// HasCategoriesOfModules says whether modules may make ACL categories: since Redis 7.4 and
// Valkey 8.0.
func (p Program) HasCategoriesOfModules() bool {
	if p.IsValkey() {
		return p.Major >= 8
	}
	return p.AtLeast(7, 4)
}

// AddsWithExpiry says whether a key that COPY, RENAME or RESTORE adds has its expiry when the server tells of the event
// "new".
func (p Program) AddsWithExpiry() bool { return !p.IsValkey() && p.AtLeast(8, 2) }

// LeavesClientsElsewhere says whether MOVE and COPY leave their client in the other database when a module listens to
// events (valkey-io/valkey#4024; 9.1.2 does not).
func (p Program) LeavesClientsElsewhere() bool {
	return p.IsValkey() && (p.Major == 8 && p.Minor >= 1 || p.Major == 9 && p.Minor == 0)
}

func (p Program) String() string { return fmt.Sprintf("%s %d.%d", p.Name, p.Major, p.Minor) }

// DefaultProgram is the server under test: THROTTLE_SERVER (a path, or a name on
// PATH), else redis-server on PATH, else the server that Debian's redis-tools
// contain under another name.
var DefaultProgram = sync.OnceValues(func() (Program, error) {
	if name := os.Getenv("THROTTLE_SERVER"); name != "" {
		return FindProgram(name)
	}
	if path, err := exec.LookPath("redis-server"); err == nil {
		return FindProgram(path)
	}
	path, err := serverInRedisTools()
	if err != nil {
		return Program{}, fmt.Errorf("no server to test against: install redis-server, "+
			"or set THROTTLE_SERVER to a redis-server or valkey-server: %w", err)
	}
	return FindProgram(path)
})

// FindProgram asks an executable what it is.
func FindProgram(name string) (Program, error) {
	path, err := fromRoot(name)
	if err != nil {
		return Program{}, err
	}
	if path, err = exec.LookPath(path); err != nil {
		return Program{}, err
	}
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return Program{}, fmt.Errorf("%s --version: %w", path, err)
	}
	m := versionText.FindSubmatch(out)
	if m == nil {
		return Program{}, fmt.Errorf("%s --version says %q, which no Redis, Valkey or throttle-dev does", path, out)
	}
	p := Program{Path: path, Name: string(m[1])}
	p.Major, _ = strconv.Atoi(string(m[2])) // digits by the expression
	p.Minor, _ = strconv.Atoi(string(m[3]))
	return p, nil
}

var versionText = regexp.MustCompile(`(Redis|Valkey|throttle-dev) server v=(\d+)\.(\d+)`)

// serverInRedisTools makes a redis-server out of redis-check-rdb: both are one
// program that looks at the name it is called by.
func serverInRedisTools() (string, error) {
	target, err := exec.LookPath("redis-check-rdb")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("redis-throttle-tests-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	link := filepath.Join(dir, "redis-server")
	if err := os.Symlink(target, link); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return link, nil
}
