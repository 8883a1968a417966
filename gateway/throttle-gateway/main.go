// Command throttle-gateway answers the rate limit requests of proxies: Envoy's Rate Limit Service (gRPC), and the
// sub-requests of nginx, Caddy, Traefik, HAProxy and others (HTTP). It keeps limits in Redis or Valkey with
// throttle.so.
//
//	throttle-gateway [serve] [FILE ...]   serves; without files, those of the folder that the environment names
//	throttle-gateway check FILE ...       says what is wrong with files and folders
//	throttle-gateway explain FILE ... REQUEST   says how a request is decided, and why
//	throttle-gateway version
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	_ "time/tzdata" // the image has no files

	"redis-throttle/gateway/internal/config"
	"redis-throttle/gateway/internal/settings"
)

// version is the project's; scripts/build-gateway sets it.
var version = "dev"

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const usage = `usage: throttle-gateway [serve] [FILE ...]
       throttle-gateway check FILE ...
       throttle-gateway explain [FILE ...] 'POST /login?x=1' [--from ADDRESS] [-H 'NAME: VALUE'] ...
       throttle-gateway version

serve    answers proxies, by files and folders, or by those that the environment names; SIGHUP has it read them at once
check    says what is wrong with files and folders, and what looks wrong
explain  says which rule a request has, and what is left; explain --help tells more
version  prints the version

variables of the environment: see docs/gateway-settings.md`

func run(args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "explain" {
		return explainTo(args[1:], os.Stdin, out)
	}
	command := "serve"
	if len(args) > 0 && args[0] == "--version" { // as the other programs have it
		args[0] = "version"
	}
	if len(args) > 0 && (args[0] == "serve" || args[0] == "check" || args[0] == "version") {
		command, args = args[0], args[1:]
	}
	for _, arg := range args {
		switch {
		case arg == "--help" || arg == "-h" || arg == "-help":
			fmt.Fprintln(out, usage)
			return nil
		case len(arg) > 1 && arg[0] == '-':
			return fmt.Errorf("there is no option %s\n%s", arg, usage)
		}
	}
	switch command {
	case "version":
		fmt.Fprintln(out, "throttle-gateway", version)
		return nil
	case "check":
		return check(args, out)
	}
	s, err := settings.Read()
	if err != nil {
		return err
	}
	o := &slog.HandlerOptions{Level: s.Level, ReplaceAttr: prefixed}
	var log slog.Handler = slog.NewTextHandler(os.Stderr, o)
	if s.LogFormat == "json" {
		log = slog.NewJSONHandler(os.Stderr, o)
	}
	slog.SetDefault(slog.New(log))
	settings.WarnOfIgnored()
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once, whatever is under way
	return serve(ctx, s, args, again)
}

// check fails at mistakes, and at what is none but hardly what its author wanted.
func check(paths []string, out io.Writer) error {
	if len(paths) == 0 {
		return errors.New(usage)
	}
	c, err := config.ReadOnce(paths...).Parse(os.Getenv("MERGE_DOMAIN_CONFIG") == "true")
	if err != nil {
		return err
	}
	if len(c.Doubts) > 0 {
		return errors.New(strings.Join(c.Doubts, "\n"))
	}
	fmt.Fprintf(out, "ok: %d domains\n", len(c.Domains))
	fields := map[string]bool{}
	for _, d := range c.Domains {
		if d.Routes != nil {
			for _, name := range d.Routes.Headers {
				fields[http.CanonicalHeaderKey(name)] = true
			}
		}
	}
	if len(fields) > 0 {
		fmt.Fprintln(out, "header fields that routes read, which the proxy has to pass on:", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
	}
	return nil
}

// prefixed begins each line of the log with the word by which those of all packages begin.
func prefixed(groups []string, a slog.Attr) slog.Attr {
	const prefix = "redis-throttle: "
	if len(groups) == 0 && a.Key == slog.MessageKey {
		a.Value = slog.StringValue(prefix + strings.TrimPrefix(a.Value.String(), prefix))
	}
	return a
}
