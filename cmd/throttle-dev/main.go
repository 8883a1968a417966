// Throttle-dev is a server for development and tests: all commands of the module, and the common ones of Redis beside
// them, without a Redis. It runs wherever Go does. It keeps nothing on disk, replicates nothing, and is one process.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"redis-throttle/limiter/command"
)

const purpose = "for development and tests: no persistence, no replication, one process"

// version is the project's; make dev and make release set it.
var version = "unreleased"

type options struct {
	Port          int              `help:"Port to listen on; 0 for a free one." default:"6379"`
	Bind          string           `help:"Address to listen on." default:"127.0.0.1"`
	Password      string           `help:"Password that clients have to give." env:"THROTTLE_DEV_PASSWORD"`
	ProtectedMode string           `help:"Without a password, serve clients of this machine only (yes), or everybody who reaches the port (no)." enum:"yes,no" default:"yes"`
	Top           int              `help:"How many keys CL.TOP keeps, as the module's configuration throttle.top; 0 turns it off. 1000 with --console." default:"-1"`
	MaxWaiting    int              `help:"How many callers may wait in line, as the module's configuration throttle.max-waiting; 0 for any number." default:"-1"`
	Aliases       string           `help:"Other names of CL.THROTTLE to answer to, as the module's configuration throttle.aliases: RL.THROTTLE, GCRA or both, separated by a comma."`
	Console       consoleFlag      `help:"Serve the console, a page that shows what is limited, at an address: ${consoleAddress} unless you name one." placeholder:"ADDR"`
	Redis         string           `help:"Show another server in the console, and start none: redis://host:6379, rediss://, unix:// or cluster+redis://." placeholder:"URL"`
	ConsoleToken  string           `help:"Token with which the console acts; without it, it only reads." env:"THROTTLE_DEV_CONSOLE_TOKEN"`
	ConsoleHost   []string         `help:"Names by which browsers reach the console, beside localhost and addresses."`
	Version       kong.VersionFlag `help:"Print the version and exit."`
}

// Validate is called by kong.
func (o *options) Validate() error {
	if o.Port < 0 || o.Port > 65535 {
		return fmt.Errorf("--port takes a number from 0 to 65535")
	}
	if _, err := command.ParseAliases(o.Aliases); err != nil {
		return fmt.Errorf("--aliases: %w", err)
	}
	if err := checkMaxWaiting(o.MaxWaiting); err != nil {
		return err
	}
	if o.Top == -1 {
		o.Top = 0
		if o.Console != "" {
			o.Top = topOfConsole
		}
	}
	if err := o.checkConsole(); err != nil {
		return err
	}
	return checkTop(o.Top)
}

// topOfConsole is how many keys CL.TOP keeps for the console, unless somebody says otherwise.
const topOfConsole = 1000

func main() {
	log.SetFlags(log.LstdFlags | log.LUTC)
	var o options
	kong.Parse(&o, kong.Name("throttle-dev"), kong.Description("All CL.* commands and the common commands of Redis, "+purpose+"."),
		kong.Vars{"consoleAddress": consoleAddress, "version": "throttle-dev server v=" + redisVersion + " throttle=" + version})
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run serves until a signal or SHUTDOWN ends it.
// closePatience is how long clients are taken leave of: a script that does not end keeps the lock that this needs.
const closePatience = time.Second

func run(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.Redis != "" {
		if err := o.serveConsole(ctx, nil); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	addr := net.JoinHostPort(o.Bind, strconv.Itoa(o.Port))
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("cannot listen on %s (choose another with --port or --bind): %w", addr, err)
	}
	s, err := newServer(listener, o.Password)
	if err != nil {
		return err
	}
	s.resizeTop(o.Top)
	s.setMaxWaiting(o.MaxWaiting)
	if err := s.offer(o.Aliases); err != nil {
		return err
	}
	s.isProtected = o.ProtectedMode == "yes" && o.Password == ""
	fmt.Printf("throttle-dev %s on %s, %s\n", version, listener.Addr(), purpose)
	switch {
	case o.Password != "" || isLocal(listener.Addr()):
	case s.isProtected:
		log.Print("warning: only clients of this machine are served. For others, set --password, or --protected-mode no in a network where you trust everybody")
	default:
		log.Printf("warning: there is no password, and protected mode is off: everybody who reaches %s may run every command", listener.Addr())
	}

	if o.Console != "" {
		if err := o.serveConsole(ctx, listener.Addr()); err != nil {
			return err
		}
	}
	go s.serve()
	select {
	case <-ctx.Done():
	case <-s.ended:
	}
	closed := make(chan struct{})
	go func() {
		s.close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(closePatience):
	}
	return nil
}
