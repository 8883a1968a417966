package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"redis-throttle/gateway/console"
)

// consoleAddress is where the console is, unless somebody says otherwise.
const consoleAddress = "127.0.0.1:6070"

// consoleFlag is --console, --console ADDR or --console=ADDR.
type consoleFlag string

// IsBool is for kong: the flag may stand alone.
func (consoleFlag) IsBool() bool { return true }

// Decode is called by kong.
func (f *consoleFlag) Decode(ctx *kong.DecodeContext) error {
	*f = consoleAddress
	switch next := ctx.Scan.Peek(); {
	case next.Type == kong.FlagValueToken, next.IsValue() && !strings.HasPrefix(next.String(), "-"):
		*f = consoleFlag(ctx.Scan.Pop().String())
	}
	if _, _, err := net.SplitHostPort(string(*f)); err != nil {
		return fmt.Errorf("--console takes an address, such as %s or :0, or nothing: %w", consoleAddress, err)
	}
	return nil
}

// checkConsole says what is wrong with the flags of the console.
func (o *options) checkConsole() error {
	switch {
	case o.Console == "" && o.Redis != "":
		return errors.New("--redis names the server that --console shows: say --console, too")
	case o.Console == "" && len(o.ConsoleHost) > 0:
		return errors.New("--console-host is a name of --console: say that, too")
	}
	if err := console.CheckToken(o.ConsoleToken); err != nil {
		return fmt.Errorf("--console-token: %w", err)
	}
	if o.Redis != "" {
		_, _, err := o.shownServer()
		return err
	}
	return nil
}

// shownServer is the server of --redis: one, or a cluster.
func (o *options) shownServer() (single *redis.Options, cluster *redis.ClusterOptions, err error) {
	if rest, ok := strings.CutPrefix(o.Redis, "cluster+"); ok {
		cluster, err = redis.ParseClusterURL(rest)
	} else {
		single, err = redis.ParseURL(o.Redis)
	}
	if err != nil { // it may hold a password
		return nil, nil, errors.New("--redis takes a URL, such as redis://127.0.0.1:6379, rediss://user:password@host:6379/0, unix:///path, or cluster+redis://host:6379")
	}
	return single, cluster, nil
}

const (
	consoleTimeout     = 2 * time.Second
	consoleConnections = 4
)

// consoleClient is a client for the console alone: it gives up soon, and the next reading tries again.
func (o *options) consoleClient(own net.Addr) (redis.UniversalClient, error) {
	logging.Disable() // what is wrong stands on the page
	if o.Redis == "" {
		return redis.NewClient(patient(&redis.Options{Addr: reachable(own), Password: o.Password})), nil
	}
	single, cluster, err := o.shownServer()
	switch {
	case err != nil:
		return nil, err
	case cluster != nil:
		cluster.DialTimeout, cluster.ReadTimeout, cluster.WriteTimeout, cluster.PoolTimeout = consoleTimeout, consoleTimeout, consoleTimeout, consoleTimeout
		cluster.ContextTimeoutEnabled, cluster.PoolSize, cluster.DisableIdentity = true, consoleConnections, true
		return redis.NewClusterClient(cluster), nil
	}
	return redis.NewClient(patient(single)), nil
}

func patient(o *redis.Options) *redis.Options {
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = consoleTimeout, consoleTimeout, consoleTimeout, consoleTimeout
	o.DialerRetries, o.ContextTimeoutEnabled, o.PoolSize = 1, true, consoleConnections
	o.DisableIdentity = true // a user with the rights that the page names may not tell it
	return o
}

// reachable is an address by which this machine reaches a listener.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("localhost", fmt.Sprint(tcp.Port))
}

// serveConsole serves the console until ctx ends. own is where this program's server listens, if it has one.
func (o *options) serveConsole(ctx context.Context, own net.Addr) error {
	client, err := o.consoleClient(own)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", string(o.Console))
	if err != nil {
		return fmt.Errorf("the console cannot listen on %s (choose another address with --console ADDR): %w", o.Console, err)
	}
	mux := http.NewServeMux()
	console.New(client, console.Options{Name: "throttle-dev console", Token: o.ConsoleToken, Hosts: o.ConsoleHost}).Handle(mux)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	fmt.Printf("console on http://%s%s\n", listener.Addr(), console.Path)
	if o.ConsoleToken == "" && !isLocal(listener.Addr()) {
		log.Print("warning: without --console-token, the console serves browsers of this machine only")
	}
	go func() {
		<-ctx.Done()
		_ = server.Close()
		_ = client.Close()
	}()
	go func() {
		if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Print("error: the console has ended: ", err)
		}
	}()
	return nil
}
