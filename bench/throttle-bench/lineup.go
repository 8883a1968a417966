package main

import (
	"bufio"
	"cmp"
	"context"
	"embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"redis-throttle/bench/internal/must"
	"redis-throttle/bench/internal/server"
	"redis-throttle/functions"
)

// The Lua recipes people rate limit with, each written from its description.
//
//go:embed recipes/*.lua
var recipes embed.FS

//go:embed floor/floor.c
var floorSource string

// lineup is the contenders of a run, ready on their servers.
type lineup struct {
	options  options
	keys     int
	lasting  bool // keys are set up once, and not again for each slice
	hosts    map[string]*host
	entrants []*entrant
	skipped  []string // why a contender is not among the entrants
	load     string   // of the machine, at the start
}

// host is a server and the connections to it that put load on it.
type host struct {
	*server.Server
	clients []*client
}

// connect returns n connections.
func (h *host) connect(n int) []*client {
	for len(h.clients) < n {
		conn := must.Get(net.Dial("tcp", h.Addr()))
		h.clients = append(h.clients, &client{conn, bufio.NewReader(conn)})
	}
	return h.clients[:n]
}

// disconnect closes the connections, whose buffers are memory of the server.
func (h *host) disconnect() {
	for _, c := range h.clients {
		_ = c.Close()
	}
	h.clients = nil
}

// entrant is a contender that takes part.
type entrant struct {
	contender
	host   *host
	prefix string // of its keys
	sha    string
}

// assemble starts the servers the contenders need, with further arguments for each, and
// gives them the time to settle. Close the lineup, also when it fails.
func (l *lineup) assemble(ctx context.Context, list []contender, serverArgs ...string) {
	l.hosts, l.load = map[string]*host{}, machineLoad()
	// The host with the module is there in any case: the results name its version.
	l.startHost(ctx, contender{}, serverArgs)
	for _, c := range list {
		// Prefixes are of one length, which counts in bytes per key.
		owner := cmp.Or(c.KeysOf, c.Name)
		prefix := fmt.Sprintf("k%03d:", slices.IndexFunc(list, func(c contender) bool { return c.Name == owner }))
		l.enter(ctx, c, prefix, serverArgs...)
	}
	pause(ctx, l.options.Settle)
}

// enter makes a contender an entrant, whose keys have a prefix. It starts its server unless it runs.
func (l *lineup) enter(ctx context.Context, c contender, prefix string, serverArgs ...string) {
	l.startHost(ctx, c, serverArgs)
	e := &entrant{contender: c, host: l.hosts[c.server()], prefix: prefix}
	if known := must.Get(e.host.Do(ctx, "COMMAND", "INFO", c.command()).Slice()); len(known) != 1 || known[0] == nil {
		l.skipped = append(l.skipped, fmt.Sprintf("%s: the server has no %s", c.Name, c.command()))
		return
	}
	e.Samples = map[metric][]float64{}
	if c.Setup == nil {
		e.Setup = []string{"{call}"}
	}
	e.Setup = slices.Repeat(e.Setup, max(c.Fill, 1))
	if c.Script != "" {
		e.sha = must.Get(e.host.ScriptLoad(ctx, scriptOf(c.Script)).Result())
	}
	l.entrants = append(l.entrants, e)
}

// scriptOf is the text of a script: that of the function library, or of a recipe.
func scriptOf(name string) string {
	if name == libraryAsScript {
		return functions.Script()
	}
	return string(must.Get(recipes.ReadFile("recipes/" + name)))
}

func (l *lineup) startHost(ctx context.Context, of contender, args []string) {
	name, key := of.Host, of.server()
	if l.hosts[key] != nil {
		return
	}
	dir := must.Get(os.MkdirTemp("", "throttle-bench-"))
	defer os.RemoveAll(dir) // the server keeps what it has loaded
	var modules []string
	switch name {
	case hostMain:
		modules = []string{"--loadmodule", l.options.Module}
	case hostOther:
		modules = []string{"--loadmodule", l.options.Module, "--loadmodule", l.floor(ctx, "floor.so", dir, buildFloor)}
	case hostFloor:
		modules = []string{"--loadmodule", l.floor(ctx, "floor.so", dir, buildFloor)}
	case hostGo:
		modules = []string{"--loadmodule", l.floor(ctx, "floor-go.so", dir, buildGoFloor)}
	case hostTop:
		modules = []string{"--loadmodule", l.options.Module, "top", "1000"}
	case hostPlain, hostFunctions:
	default:
		modules = []string{"--loadmodule", name}
	}
	l.hosts[key] = &host{Server: server.Start(ctx, cmp.Or(of.Program, l.options.Server), append(modules, args...)...)}
	if name == hostFunctions {
		must.Do(l.hosts[key].FunctionLoad(ctx, functions.Library).Err())
	}
}

// floor is the path of a floor: among those that were built before, or one that build builds.
func (l *lineup) floor(ctx context.Context, name, dir string, build func(ctx context.Context, dir string) string) string {
	if l.options.Floors == "" {
		return build(ctx, dir)
	}
	path := must.Get(filepath.Abs(filepath.Join(l.options.Floors, name)))
	if _, err := os.Stat(path); err != nil {
		must.Fail("--floors: %w; make bench-kit builds it", err)
	}
	return path
}

// floors builds both into a folder.
func floors(ctx context.Context, into string) {
	if into == "" {
		must.Fail("--floors names the folder to build into")
	}
	for name, build := range map[string]func(context.Context, string) string{"floor.so": buildFloor, "floor-go.so": buildGoFloor} {
		dir := must.Get(os.MkdirTemp(must.Get(filepath.Abs(into)), ".build-")) // not another file system
		defer os.RemoveAll(dir)
		must.Do(os.Rename(build(ctx, dir), filepath.Join(into, name)))
	}
}

// buildFloor compiles the floor into a folder.
func buildFloor(ctx context.Context, dir string) string {
	compiler := cmp.Or(os.Getenv("CC"), "cc")
	path := filepath.Join(dir, "floor.so")
	cmd := exec.CommandContext(ctx, compiler, "-O2", "-shared", "-fPIC", "-x", "c", "-o", path, "-")
	cmd.Stdin = strings.NewReader(floorSource)
	compile(cmd, dir)
	return path
}

// buildGoFloor builds the floor as a Go library into a folder.
func buildGoFloor(ctx context.Context, dir string) string {
	path := filepath.Join(dir, "floor.so")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildmode=c-shared", "-o", path, "redis-throttle/bench/throttle-bench/floor")
	compile(cmd, dir)
	return path
}

// compile runs a compiler that writes floor.so into dir. Its temporary files lie there as well, and what it has started
// is killed with it: nothing is left of either when the context ends and dir is removed.
func compile(cmd *exec.Cmd, dir string) {
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "GOTMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if out, err := cmd.CombinedOutput(); err != nil {
		must.Fail("%s did not compile the floor: %w\n%s", cmd.Args[0], err, out)
	}
	must.Do(os.Chmod(filepath.Join(dir, "floor.so"), 0o755)) // the server refuses a module without the execute bit
}

// close stops the servers.
func (l *lineup) close() {
	for _, h := range l.hosts {
		h.disconnect()
		h.Close()
	}
}

// contenders are those that take part, with the figures so far.
func (l *lineup) contenders() (all []contender) {
	for _, e := range l.entrants {
		all = append(all, e.contender)
	}
	return all
}

// each makes calls for the keys from 0 up to n, and fails when any is answered an error.
func (e *entrant) each(ctx context.Context, n int, templates ...string) {
	defer must.Name("%s", e.Name)
	const block = 100_000 // keys
	for from := 0; from < n && len(templates) > 0; from += block {
		all := batches(min(block, n-from), pipelineDepth, func(i int) int { return from + i }, e.calls(templates)...)
		_, _, err := load(ctx, e.host.connect(1), all, "")
		must.Do(err)
	}
}

// randomCalls are the calls to measure.
func (e *entrant) randomCalls(calls, keys, pipeline int) []batch {
	return batches(calls, pipeline, func(i int) int { return randomKey(keys, i) }, e.calls(e.sequence())...)
}

// calls fills in what is the same in all calls of the contender.
func (e *entrant) calls(templates []string) (calls []string) {
	own := strings.NewReplacer("{sha}", e.sha, "{key}", e.prefix+"{key}")
	for _, template := range templates {
		calls = append(calls, own.Replace(strings.ReplaceAll(template, "{call}", e.Call)))
	}
	return calls
}

// pause waits.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
		must.Do(ctx.Err())
	case <-time.After(d):
	}
}
