package server

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Option sets one property of a server that differs from the default.
type Option func(*options)

type options struct {
	program    *Program
	module     string // path of the .so, "" for none
	noModule   bool
	moduleArgs []string
	config     []string
	dir        string
	host       string
	port       int
	replicaOf  string
	password   string
	keepConfig bool
	noFile     bool
	args       []string // on the command line, after the configuration file
}

// Config adds lines to the server's configuration file. They come last, so they override
// the defaults.
func Config(lines ...string) Option {
	return func(o *options) { o.config = append(slices.Clip(o.config), lines...) }
}

// WithoutModule leaves the module out.
func WithoutModule() Option { return func(o *options) { o.noModule = true } }

// Module loads another file than the default.
func Module(path string) Option { return func(o *options) { o.module = path } }

// ModuleArgs are the load arguments of the module.
func ModuleArgs(args ...string) Option { return func(o *options) { o.moduleArgs = args } }

// Dir is the folder the server works in; without it, a new one.
func Dir(path string) Option { return func(o *options) { o.dir = path } }

// Host is the address the server listens on; without it, 127.0.0.1. It is for hosts that the test has
// made (package hosts).
func Host(addr string) Option { return func(o *options) { o.host = addr } }

// Password sets the default user's password. Clients made from the Server know it.
func Password(p string) Option { return func(o *options) { o.password = p } }

// Run uses another server program than the one under test.
func Run(p Program) Option { return func(o *options) { o.program = &p } }

// Cluster makes the server a cluster node.
func Cluster() Option {
	return Config("cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 2000")
}

// Sentinel makes the server watch others: it then holds no data and no module.
// Config names the masters.
func Sentinel() Option {
	return func(o *options) {
		o.noModule = true
		o.args = []string{"--sentinel"}
	}
}

// AppendOnly turns the append-only file on. fsync is always, everysec or no.
func AppendOnly(fsync string) Option { return Config("appendonly yes", "appendfsync "+fsync) }

// ReplicaOf makes the server a replica of master. With nil, in Configure, it makes it a master
// again.
func ReplicaOf(master *Server) Option {
	return func(o *options) {
		if master == nil {
			o.replicaOf = ""
			return
		}
		o.replicaOf = fmt.Sprintf("replicaof %s %d", master.Host, master.Port)
		if master.options.password != "" {
			Config("masterauth " + master.options.password)(o)
		}
	}
}

// KeepConfig restarts with the configuration file as the server left it, after CONFIG
// REWRITE. It is an option for Configure.
func KeepConfig() Option { return func(o *options) { o.keepConfig = true } }

// CommandLine gives the server more options on its command line, which override its
// configuration file.
func CommandLine(args ...string) Option {
	return func(o *options) { o.args = append(slices.Clip(o.args), args...) }
}

// NoConfigFile gives the server everything on its command line, the module too.
func NoConfigFile() Option { return func(o *options) { o.noFile = true } }

// complete fills in the defaults.
func (o *options) complete() error {
	if o.program == nil {
		p, err := DefaultProgram()
		if err != nil {
			return err
		}
		o.program = &p
	}
	if o.program.IsDev() {
		return nil
	}
	if o.module == "" && !o.noModule {
		path, err := ModulePath()
		if err != nil {
			return err
		}
		o.module = path
	}
	return nil
}

// commandLine is what follows the program's name. It writes the configuration file again,
// unless there is to be none, or the one that is there is to be kept.
func (o *options) commandLine(s *Server) ([]string, error) {
	if s.Program.IsDev() {
		return o.devLine(s), nil
	}
	if o.noFile {
		return append(asArguments(o.configLines(s)), o.args...), nil
	}
	path := filepath.Join(s.Dir, "server.conf")
	if !o.keepConfig {
		text := strings.Join(o.configLines(s), "\n") + "\n"
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return append([]string{path}, o.args...), nil
}

// asArguments turns lines of a configuration file into command line arguments. No word of
// theirs holds a space.
func asArguments(lines []string) (args []string) {
	for _, line := range lines {
		for i, word := range strings.Fields(line) {
			if i == 0 {
				word = "--" + word
			}
			args = append(args, strings.Trim(word, `"`))
		}
	}
	return args
}

// neighbours loads the modules of THROTTLE_NEIGHBOURS into every server, replicas too: paths with spaces between them,
// such as those of the four that Redis 8 is delivered with.
func neighbours() (lines []string) {
	for _, path := range strings.Fields(os.Getenv("THROTTLE_NEIGHBOURS")) {
		lines = append(lines, "loadmodule "+path)
	}
	return lines
}

func (o *options) configLines(s *Server) []string {
	lines := []string{
		"bind " + s.Host,
		fmt.Sprintf("port %d", s.Port),
		fmt.Sprintf("dir %q", s.Dir),
		`save ""`,
		"daemonize no",
		"crash-memcheck-enabled no",
		"repl-diskless-sync-delay 0",
	}
	if s.Program.AtLeast(7, 0) {
		lines = append(lines,
			"enable-debug-command yes",
			"enable-module-command yes",
			// A test's raw replication link acknowledges nothing; do not wait for it.
			"shutdown-timeout 0",
		)
	}
	if o.password != "" {
		lines = append(lines, "requirepass "+o.password)
	}
	if !slices.Contains(o.args, "--sentinel") {
		lines = append(lines, neighbours()...)
	}
	if !o.noModule {
		load := append([]string{"loadmodule", o.module}, o.moduleArgs...)
		lines = append(lines, strings.Join(load, " "))
	}
	if o.host != "" { // every client that reaches it may use it: the network is the test's
		lines = append(lines, "protected-mode no")
	}
	if o.replicaOf != "" {
		lines = append(lines, o.replicaOf)
	}
	return append(lines, o.config...)
}
