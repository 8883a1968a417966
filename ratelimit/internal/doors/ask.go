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

// ask has somebody find out how a server without the module takes calls, and waits as long as ctx lasts. Of all callers
// that want to know one asks.
func (d *Doors) ask(ctx context.Context, s *server, node Node, seen *standing, key string) error {
	s.mu.Lock()
	if s.now.Load() != seen { // somebody has asked meanwhile
		s.mu.Unlock()
		return nil
	}
	q := s.question
	if q == nil {
		q = &question{done: make(chan struct{})}
		s.question = q
		go d.answer(context.WithoutCancel(ctx), s, node, seen, q, key)
	}
	s.mu.Unlock()
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *Doors) answer(ctx context.Context, s *server, node Node, seen *standing, q *question, key string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	what, err := d.find(ctx, node, key)
	since := time.Now()
	if redis.IsReadOnlyError(what.refused) {
		since = since.Add(replicaFor - asksAfter)
	}
	if err == nil && s.now.CompareAndSwap(seen, &standing{what.door, since}) {
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
	foreign bool  // there is a cl_version that is somebody else's
	refused error // why it is not the library
}

// rounds is how often somebody else may load a library while this client is about to.
const rounds = 3

// find looks for the library, loads it if there is none, or an older one, and falls back to the script. It asks with
// the key of a call: managed services refuse calls without keys, and users may have few keys.
func (d *Doors) find(ctx context.Context, node Node, key string) (found, error) {
	var what found
	for range rounds {
		there, err := there(ctx, node, key)
		what.old = 0
		switch {
		case errors.Is(err, errForeign):
			what.foreign = true
		case err == nil && there >= int64(version):
			what.door, what.version = library, there
			return what, nil
		case err == nil:
			// REPLACE of one name would put this library over a newer one that came in between. Names of functions are
			// unique on a server: beside a library of another name, nothing is loaded.
			err = node.Atomically(ctx, []any{"FUNCTION", "DELETE", nameOnServer(ctx, node, there)}, []any{"FUNCTION", "LOAD", code})
			what.old = there
		case isNoFunction(err):
			_, err = node.Do(ctx, "FUNCTION", "LOAD", code)
		}
		switch {
		case err == nil:
			what.door, what.version, what.loaded = library, int64(version), true
			return what, nil
		case !what.foreign && (!isReply(err) || (d.outage(err) && !redis.IsReadOnlyError(err))):
			return found{}, err
		}
		what.refused = err
		if !isThere(err) {
			break
		}
	}
	reply, err := node.Do(ctx, "EVAL", text, "1", key, "cl_version") // from then on the server has it
	switch _, isVersion := reply.(int64); {
	case err == nil && isVersion:
		what.door = script
		return what, nil
	case err == nil:
		err = fmt.Errorf("cl_version answers %v", reply)
	case !isReply(err) || d.outage(err) || isElsewhere(err):
		return found{}, err
	}
	return found{}, &NothingError{d.lacking(), what.refused, err}
}

// nameOnServer is the name of a library of a version: throttle if an operator loaded it. Any other library of that name
// is somebody else's.
func nameOnServer(ctx context.Context, node Node, version int64) string {
	const byHand = "throttle"
	reply, err := node.Do(ctx, "FUNCTION", "LIST", "LIBRARYNAME", byHand)
	if err == nil && hasFunction(reply, "cl_version") {
		return byHand
	}
	return nameOf(version)
}

// hasFunction says whether a reply of FUNCTION LIST names a function, exactly: a library of somebody else may be about
// one of ours.
func hasFunction(reply any, function string) bool {
	switch reply := reply.(type) {
	case []any:
		for i, item := range reply {
			if item == "name" && i+1 < len(reply) && reply[i+1] == function || hasFunction(item, function) {
				return true
			}
		}
	case map[any]any:
		for key, item := range reply {
			if key == "name" && item == function || hasFunction(item, function) {
				return true
			}
		}
	case map[string]any: // of rueidis
		for key, item := range reply {
			if key == "name" && item == function || hasFunction(item, function) {
				return true
			}
		}
	}
	return false
}

func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// isThere says whether a library was refused because somebody else has loaded one.
func isThere(err error) bool { return isReply(err) && strings.HasSuffix(err.Error(), "already exists") }

// errForeign says that cl_version is a function of somebody else's library.
var errForeign = errors.New("the function cl_version is somebody else's")

// mostVersion is 99.99.99. What is no number up to it is no version.
const mostVersion = 999_999

// there is the version of the library that a server has. A library that may be newer than ours has to have our
// functions, too. The user has to have the right for functions that write and for those that do not.
func there(ctx context.Context, node Node, key string) (int64, error) {
	reply, err := node.Do(ctx, "FCALL", "cl_version", "1", key)
	if err != nil {
		return 0, err
	}
	n, ok := reply.(int64)
	if !ok || n < 1 || n > mostVersion {
		return 0, errForeign
	}
	_, err = node.Do(ctx, "FCALL_RO", "cl_peek", "1", key)
	switch {
	case isNoFunction(err):
		// Somebody has removed ours in between, or it never was ours.
		if _, err := node.Do(ctx, "FCALL", "cl_version", "1", key); err != nil {
			return 0, err
		}
		return 0, errForeign
	case IsMissing(err), err != nil && !isReply(err):
		return 0, err
	}
	return n, nil
}

// said is what a server said, without the arguments that it repeats: a key does not belong into a log.
func said(err error) string {
	text, _, _ := strings.Cut(err.Error(), ", with args")
	return text
}

// NothingError is the error of a server that takes a call in no way, with what it said. Right is what the user lacks
// for the module's command, if that is why it was not run.
type NothingError struct {
	Right            string
	Function, Script error
}

func (e *NothingError) Error() string {
	text := "scripts: " + said(e.Script)
	if e.Function != nil {
		text = fmt.Sprintf("it takes no function: %s; and no script: %s", said(e.Function), said(e.Script))
	}
	if e.Right != "" {
		return "or the user has no right for " + e.Right + "; " + text
	}
	return text
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
	// Where functions are all that may be called, nobody has looked for the module.
	has, lacks, refuses := " has no module, and", " has no module", " has no module and refuses"
	if d.Only == Functions {
		has, lacks, refuses = " has", "", " refuses"
	}
	if right := d.lacking(); right != "" && d.Only == Auto {
		has, lacks, refuses = " refuses "+right+", which its user has no right for, and has", " refuses "+right+", which its user has no right for", " refuses "+right+" and"
	}
	const slowly = "calls are sent as scripts, which take longer"
	level, text := slog.LevelInfo, ""
	switch {
	case what.door == module:
		text = " has the module: calls are sent as its commands"
	case what.door == script:
		level = slog.LevelWarn
		switch {
		case what.foreign:
			text = fmt.Sprintf("%s a function cl_version of somebody else's library, beside which ours cannot be loaded: %s", has, slowly)
		case what.old != 0:
			text = fmt.Sprintf("%s the function library %s, which may not be replaced by %s (%s): %s", has, dotted(what.old), dotted(int64(version)), said(what.refused), slowly)
		default:
			text = fmt.Sprintf("%s functions (%s): %s", refuses, said(what.refused), slowly)
		}
	case !what.loaded:
		text = fmt.Sprintf("%s the function library %s: calls are sent as functions", has, dotted(what.version))
	case what.old == 0:
		text = fmt.Sprintf("%s: the function library %s was loaded, and calls are sent as functions", lacks, dotted(what.version))
	default:
		text = fmt.Sprintf("%s: the function library %s was loaded in place of %s, and calls are sent as functions", lacks, dotted(what.version), dotted(what.old))
	}
	d.Logger.Log(context.Background(), level, "redis-throttle: "+server+text)
}
