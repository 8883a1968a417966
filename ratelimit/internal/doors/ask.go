package doors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// patience is how long a server has to say what it has, and to load a library.
const patience = 5 * time.Second

// ask has somebody find out how a server without the module takes calls, and waits as long as ctx lasts. Of all callers that want to know
// one asks.
func (d *Doors) ask(ctx context.Context, s *server, node Node, seen *door) error {
	s.mu.Lock()
	if s.now.Load() != seen { // somebody has asked meanwhile
		s.mu.Unlock()
		return nil
	}
	q := s.question
	if q == nil {
		q = &question{done: make(chan struct{})}
		s.question = q
		go d.answer(context.WithoutCancel(ctx), s, node, seen, q)
	}
	s.mu.Unlock()
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *Doors) answer(ctx context.Context, s *server, node Node, seen *door, q *question) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	what, err := d.find(ctx, node)
	if err == nil && s.now.CompareAndSwap(seen, new(what.door)) {
		d.tell(s, what)
	}
	s.mu.Lock()
	s.question = nil
	s.mu.Unlock()
	q.err = err
	close(q.done)
}

// found is what a server has.
type found struct {
	door    door
	version int64 // of the library
	loaded  bool  // by this client
	old     int64 // the version of the library that was there before
	refused error // why it is not the library
}

// rounds is how often somebody else may load a library while this client is about to.
const rounds = 3

// find looks for the library, loads it if there is none, or an older one, and falls back to the script.
func (d *Doors) find(ctx context.Context, node Node) (found, error) {
	var what found
	for range rounds {
		there, err := version64(node.Do(ctx, "FCALL_RO", "cl_version", "0"))
		switch {
		case err == nil && there >= int64(version):
			what.door, what.version = library, there
			return what, nil
		case err == nil:
			// REPLACE of one name would put this library over a newer one that came in between. Names of functions are unique on a server:
			// beside a library of another name, nothing is loaded.
			err = node.Atomically(ctx, []any{"FUNCTION", "DELETE", nameOnServer(ctx, node, there)}, []any{"FUNCTION", "LOAD", code})
			what.old = there
		case isNoFunction(err):
			_, err = node.Do(ctx, "FUNCTION", "LOAD", code)
			what.old = 0
		}
		switch {
		case err == nil:
			what.door, what.version, what.loaded = library, int64(version), true
			return what, nil
		case isThere(err):
			continue
		case !isReply(err) || (d.outage(err) && !redis.IsReadOnlyError(err)):
			return found{}, err
		}
		what.refused = err
		break
	}
	_, err := node.Do(ctx, "SCRIPT", "LOAD", text)
	switch {
	case err == nil:
		return found{door: script, refused: what.refused}, nil
	case !isReply(err) || d.outage(err):
		return found{}, err
	}
	return found{}, &NothingError{what.refused, err}
}

// nameOnServer is the name of a library of a version: throttle if an operator loaded it. Any other library of that name is somebody else's.
func nameOnServer(ctx context.Context, node Node, version int64) string {
	const byHand = "throttle"
	reply, err := node.Do(ctx, "FUNCTION", "LIST", "LIBRARYNAME", byHand)
	if err == nil && strings.Contains(fmt.Sprint(reply), "cl_version") {
		return byHand
	}
	return nameOf(version)
}

func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// isThere says whether a library was refused because somebody else has loaded one.
func isThere(err error) bool { return isReply(err) && strings.HasSuffix(err.Error(), "already exists") }

func version64(reply any, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	n, ok := reply.(int64)
	if !ok {
		return 0, fmt.Errorf("cl_version answers %v, not a version", reply)
	}
	return n, nil
}

// NothingError is the error of a server that has no module and refuses functions and scripts, with what it said.
type NothingError struct{ Function, Script error }

func (e *NothingError) Error() string {
	script, _, _ := strings.Cut(e.Script.Error(), ", with args")
	if e.Function == nil {
		return "scripts: " + script
	}
	function, _, _ := strings.Cut(e.Function.Error(), ", with args")
	return fmt.Sprintf("it takes no function: %s; and no script: %s", function, script)
}

// RedisError marks it as a reply.
func (e *NothingError) RedisError() {}

// tell logs what a server has, when that is something else than before.
func (d *Doors) tell(s *server, what found) {
	s.mu.Lock()
	before := s.told
	s.told = what.door
	s.mu.Unlock()
	if before == what.door || (before == unknown && what.door == module) {
		return
	}
	server := s.addr
	if server == "" {
		server = "the server"
	}
	without := " has no module"
	if d.Only == Functions {
		without = " is called by functions"
	}
	level, text := slog.LevelInfo, ""
	switch {
	case what.door == module:
		text = " has the module: calls are sent as its commands"
	case what.door == script:
		level = slog.LevelWarn
		text = fmt.Sprintf("%s and refuses functions (%v): calls are sent as scripts, which take longer", without, what.refused)
	case !what.loaded:
		text = fmt.Sprintf("%s, and the function library %s: calls are sent as functions", without, dotted(what.version))
	case what.old == 0:
		text = fmt.Sprintf("%s: the function library %s was loaded, and calls are sent as functions", without, dotted(what.version))
	default:
		text = fmt.Sprintf("%s: the function library %s was loaded in place of %s, and calls are sent as functions", without, dotted(what.version), dotted(what.old))
	}
	d.Logger.Log(context.Background(), level, "throttle: "+server+text)
}
