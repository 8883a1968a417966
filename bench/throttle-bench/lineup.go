package main

import (
	"context"
	"embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"redis-throttle/bench/internal/must"
	"redis-throttle/bench/internal/server"
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
	hosts    map[string]*host
	entrants []*entrant
	skipped  []string // why a contender is not among the entrants
}

// host is a server and the connections to it that put load on it.
type host struct {
	*server.Server
	clients []net.Conn
}

// connect returns so many connections.
func (h *host) connect(n int) []net.Conn {
	for len(h.clients) < n {
		h.clients = append(h.clients, must.Get(net.Dial("tcp", h.Addr())))
	}
	return h.clients[:n]
}

// entrant is a contender that takes part.
type entrant struct {
	Contender
	host    *host
	prefix  string // of its keys
	sha     string
	ready   bool // Lasting, and set up
	figures contenderResult
}

// assemble starts the servers the contenders need, with further arguments for each, and
// gives them the time to settle. Close the lineup, also when it fails.
func (l *lineup) assemble(ctx context.Context, list []Contender, serverArgs ...string) {
	l.hosts = map[string]*host{}
	// The host with the module is there in any case: the results name its version.
	l.startHost(ctx, hostMain, serverArgs)
	for i, c := range list {
		l.startHost(ctx, c.Host, serverArgs)
		// Prefixes are of one length, which counts in bytes per key.
		e := &entrant{Contender: c, host: l.hosts[c.Host], prefix: fmt.Sprintf("k%03d:", i)}
		e.figures = contenderResult{Name: c.Name, Group: c.Group, Command: c.Args, Beside: c.Beside}
		if known := must.Get(e.host.Do(ctx, "COMMAND", "INFO", c.command()).Slice()); len(known) != 1 || known[0] == nil {
			l.skipped = append(l.skipped, fmt.Sprintf("%s: the server has no %s", c.Name, c.command()))
			continue
		}
		if c.Script != "" {
			source := must.Get(recipes.ReadFile("recipes/" + c.Script))
			e.sha = must.Get(e.host.ScriptLoad(ctx, string(source)).Result())
		}
		if owner := slices.IndexFunc(l.entrants, func(e *entrant) bool { return e.Name == c.KeysOf }); owner >= 0 {
			e.prefix = l.entrants[owner].prefix
		}
		l.entrants = append(l.entrants, e)
	}
	pause(ctx, l.options.settle)
}

func (l *lineup) startHost(ctx context.Context, name string, args []string) {
	if l.hosts[name] != nil {
		return
	}
	spec := server.Spec{Program: l.options.server, Modules: [][]string{{name}}, Args: args}
	switch name {
	case hostMain:
		dir := must.Get(os.MkdirTemp("", "throttle-bench-"))
		defer os.RemoveAll(dir) // the server keeps what it has loaded
		spec.Modules = [][]string{{l.options.module}, {buildFloor(ctx, dir)}}
	case hostTop:
		spec.Modules = [][]string{{l.options.module, "top", "1000"}}
	case hostPlain:
		spec.Modules = nil
	}
	l.hosts[name] = &host{Server: server.Start(ctx, spec)}
}

// buildFloor compiles the floor into a folder.
func buildFloor(ctx context.Context, dir string) string {
	compiler := "cc"
	if name := os.Getenv("CC"); name != "" {
		compiler = name
	}
	path := filepath.Join(dir, "floor.so")
	cmd := exec.CommandContext(ctx, compiler, "-O2", "-shared", "-fPIC", "-x", "c", "-o", path, "-")
	cmd.Stdin = strings.NewReader(floorSource)
	if out, err := cmd.CombinedOutput(); err != nil {
		must.Fail("%s did not compile the floor: %w\n%s", compiler, err, out)
	}
	must.Do(os.Chmod(path, 0o755)) // the server refuses a module without the execute bit
	return path
}

// disconnect closes the connections, whose buffers are memory of the server.
func (h *host) disconnect() {
	for _, client := range h.clients {
		_ = client.Close()
	}
	h.clients = nil
}

// close stops the servers.
func (l *lineup) close() {
	for _, h := range l.hosts {
		h.disconnect()
		h.Close()
	}
}

// results are the figures so far.
func (l *lineup) results() (all []contenderResult) {
	for _, e := range l.entrants {
		all = append(all, e.figures)
	}
	return all
}

// encoded is a template as it goes over the wire, with marks.
func (e *entrant) encoded(template string) []byte {
	return encode(words(template, e.sha, e.prefix+keyMark, idMark, mixMark))
}

// each makes calls for the keys from 0 up to n, and fails when any is answered an error.
func (e *entrant) each(ctx context.Context, n int, templates ...string) {
	defer must.Name("%s", e.Name)
	var one []byte
	for _, template := range templates {
		one = append(one, e.encoded(template)...)
	}
	const depth, block = 50, 100_000 // keys
	for from := 0; from < n && len(templates) > 0; from += block {
		all := batches(min(block, n-from), depth, len(templates), func(b []byte, i int) []byte { return appendCall(b, one, from+i, i) })
		_, err := load(ctx, e.host.connect(1), all, false)
		must.Do(err)
	}
}

// prepare brings every key into the state the contender's name promises. All that are
// measured on one server then find as many keys there: their own, or everybody's lasting ones.
func (e *entrant) prepare(ctx context.Context, keys int) {
	if e.ready || e.KeysOf != "" {
		return
	}
	if e.ready = e.Lasting; !e.Lasting {
		must.Do(e.host.FlushAll(ctx).Err())
	}
	e.each(ctx, keys, e.setupCalls()...)
}

// pause waits.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
		must.Do(ctx.Err())
	case <-time.After(d):
	}
}
