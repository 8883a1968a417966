package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	rundebug "runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	dev "github.com/alicebob/miniredis/v2/server"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/embedded"
)

// server runs one command at a time: mu is held while it does. The commands of the module run in an embedded.Host.
// miniredis runs the others, on the same keys; it has no listener of its own.
type server struct {
	listener net.Listener
	password string
	begun    time.Time

	mu      sync.Mutex
	clock   clock
	nowNs   int64 // the clock as it was when the command came, or the timer
	store   store
	host    embedded.Host
	clients map[int64]*client
	lastID  int64
	// Clients that wait: callers of the host by their handles, and callers of other commands in order of arrival.
	waiting map[embedded.Waiter]*client
	blocked []*client
	timer   *time.Timer
	inside  *script // that runs now, or nil
	faults  int64   // panics that were recovered
	top     int     // how many keys CL.TOP keeps
	// maxWaiting is throttle.max-waiting as it was given.
	maxWaiting int
	aliases    string            // as they were given
	used       map[string]*usage // by name in capitals

	// scratch is a client of miniredis that nobody else is: for what a command asks on the way. What it is answered is
	// in scratchReply.
	scratch      *dev.Peer
	scratchReply bytes.Buffer

	// isProtected has only clients of this machine served, as protected-mode of Redis does.
	isProtected bool
	attacked    sync.Once // for a line of the log

	closing chan struct{}
	ended   chan struct{} // SHUTDOWN came
	endOnce sync.Once
}

func newServer(listener net.Listener, password string) (*server, error) {
	s := &server{
		listener: listener, password: password, begun: time.Now(),
		clients: map[int64]*client{}, waiting: map[embedded.Waiter]*client{}, used: map[string]*usage{},
		closing: make(chan struct{}), ended: make(chan struct{}),
	}
	s.store = newStore(s.clock.now())
	s.host.Store = &s.store
	s.setMaxWaiting(waitingByMemory)
	conn, err := s.store.redis.Dial() // which starts it, without a listener
	if err != nil {
		return nil, err
	}
	_ = conn.Close()
	redis := s.store.redis.Server()
	redis.SetPreHook(s.fromScript)
	if err := s.register(command.All); err != nil {
		return nil, err
	}
	s.scratch = dev.NewPeer(bufio.NewWriter(&s.scratchReply))
	s.timer = time.AfterFunc(time.Hour, s.onTimer)
	return s, nil
}

// register tells miniredis of commands, so that scripts know which only read.
func (s *server) register(all []*command.Command) error {
	for _, cmd := range all {
		var readOnly []dev.CmdOption
		if cmd.ReadOnly() {
			readOnly = append(readOnly, dev.ReadOnlyOption())
		}
		if err := s.store.redis.Server().Register(cmd.Name, func(*dev.Peer, string, []string) {}, readOnly...); err != nil {
			return err
		}
	}
	return nil
}

// offer adds the other names of commands that --aliases asks for.
func (s *server) offer(names string) error {
	aliases, err := command.ParseAliases(names)
	if err != nil {
		return fmt.Errorf("--aliases: %w", err)
	}
	s.aliases = names
	s.host.Offer(aliases)
	return s.register(aliases)
}

func (s *server) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				s.end()
			}
			return
		}
		if s.isProtected && !isLocal(conn.RemoteAddr()) {
			go deny(conn)
			continue
		}
		go s.newClient(conn).serve()
	}
}

func isLocal(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// deny tells a client of another machine that the server is protected.
func deny(conn net.Conn) {
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write([]byte("-DENIED throttle-dev is in protected mode, as it was started without a password: only clients of its own machine may connect. " +
		"To serve others, start it with --password, or with --protected-mode no in a network where you trust everybody\r\n"))
	_ = conn.Close()
}

// lock begins a command, or another look at the server. Everything in it happens at one instant, as in a transaction or
// a script.
func (s *server) lock() {
	s.mu.Lock()
	s.nowNs = s.clock.now()
}

func (s *server) now() int64 { return s.nowNs }

func (s *server) setClock(ns int64) {
	s.clock.set(ns)
	s.nowNs = s.clock.now()
}

func (s *server) end() { s.endOnce.Do(func() { close(s.ended) }) }

// close ends all connections. Callers that wait get no answer.
func (s *server) close() {
	close(s.closing)
	_ = s.listener.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		_ = c.conn.Close()
	}
}

// background is how often keys are looked at whose time may be over while callers wait.
const background = 100 * time.Millisecond

func (s *server) onTimer() {
	s.lock()
	defer s.mu.Unlock()
	s.refresh(s.now())
	s.answerWaiting()
}

// refresh deletes the keys whose time is over, and has all lines looked at.
func (s *server) refresh(nowNs int64) {
	s.store.tick(nowNs)
	s.host.StoreChanged()
}

// answerWaiting answers the callers that can be answered now, and sets the timer for the next.
func (s *server) answerWaiting() {
	if len(s.waiting)+len(s.blocked) == 0 {
		if _, some := s.host.Next(); !some {
			return
		}
	}
	nowNs := s.now()
	for {
		answers := s.host.Wake(nowNs)
		for _, a := range answers {
			c := s.waiting[a.Waiter]
			delete(s.waiting, a.Waiter)
			c.answer(func(w *dev.Writer) { writeReply(w, a.Reply) })
		}
		if !s.retry(nowNs) && len(answers) == 0 {
			break
		}
	}
	if nextNs, ok := s.next(); ok && !s.clock.stopped {
		s.timer.Reset(min(max(time.Duration(nextNs-nowNs), 0), background))
	} else if !s.clock.stopped && len(s.waiting)+len(s.blocked) > 0 {
		s.timer.Reset(background)
	}
}

// next returns the first instant at which somebody is to be answered, if nothing happens before.
func (s *server) next() (ns int64, ok bool) {
	ns, ok = s.host.Next()
	for _, c := range s.blocked {
		if c.deadlineNs > 0 && (!ok || c.deadlineNs < ns) {
			ns, ok = c.deadlineNs, true
		}
	}
	return ns, ok
}

// advance has time pass until an instant. Callers that wait are answered each at its own.
func (s *server) advance(toNs int64) {
	s.answerWaiting()
	for nowNs := s.now(); ; {
		nextNs, ok := s.next()
		if !ok || nextNs > toNs || nextNs <= nowNs && nextNs != 0 && len(s.waiting)+len(s.blocked) == 0 {
			break
		}
		if nowNs = max(nextNs, nowNs+int64(time.Microsecond)); nowNs > toNs {
			break
		}
		s.setClock(nowNs)
		s.refresh(nowNs)
		s.answerWaiting()
	}
	s.jump(toNs)
}

// jump sets the clock.
func (s *server) jump(toNs int64) {
	s.setClock(toNs)
	s.refresh(s.now())
	s.answerWaiting()
}

// run runs one command of a client, to whom mayWait says that it can be made to wait. Its reply is written, unless it
// waits now.
func (s *server) run(c *client, words [][]byte) {
	s.lock()
	defer s.mu.Unlock()
	defer s.recover(c.peer)
	s.execute(&call{server: s, client: c, peer: c.peer, db: c.db, words: words, mayWait: true})
	s.answerWaiting()
	s.tellTrackers()
}

// recover answers a command that panicked with an error. It is to be deferred.
func (s *server) recover(peer *dev.Peer) {
	problem := recover()
	if problem == nil {
		return
	}
	s.unlockRedis()
	if text, ok := problem.(string); ok && strings.HasPrefix(text, "regexp: Compile(") {
		peer.WriteError(badPattern)
		return
	}
	s.faults++
	fmt.Fprintf(os.Stderr, "internal error: %v\n%s", problem, rundebug.Stack())
	peer.WriteError(fmt.Sprintf("ERR internal error of throttle-dev: %v", problem))
}

// unlockRedis is for a panic: miniredis may have had its lock.
func (s *server) unlockRedis() {
	s.store.redis.TryLock()
	s.store.redis.Unlock()
}

// compiles reports whether miniredis can match by a pattern. It panics at some, and subscribes to others so that each
// PUBLISH panics.
func (s *server) compiles(pattern []byte) (ok bool) {
	defer func() {
		if recover() != nil {
			s.unlockRedis()
			ok = false
		}
	}()
	s.ask(false, "PUBSUB", "CHANNELS", string(pattern))
	return (len(pattern)-len(bytes.TrimRight(pattern, `\`)))%2 == 0
}

// badPattern is for what miniredis cannot compile.
const badPattern = "ERR throttle-dev cannot match by such a pattern: it has to be UTF-8, with ranges in order and no \\ at its end"

// bounded keeps the cursor and the COUNT of a scan where miniredis can add them. A cursor that is negative is a high
// one, as on servers.
func bounded(words []string) []string {
	cursor := map[string]int{"SCAN": 1, "SSCAN": 2, "HSCAN": 2, "ZSCAN": 2}[strings.ToUpper(words[0])]
	if cursor == 0 {
		return words
	}
	for i := cursor; i < len(words); i++ {
		n, err := strconv.ParseInt(words[i], 10, 64)
		isCursor := i == cursor
		if err == nil && (n > math.MaxInt32 || n < 0 && isCursor) && (isCursor || strings.EqualFold(words[i-1], "COUNT")) {
			words[i] = strconv.Itoa(math.MaxInt32)
		}
	}
	return words
}

// foreign has miniredis run a command. A panic is the command's own: behind it a transaction goes on.
func (s *server) foreign(peer *dev.Peer, words [][]byte) {
	defer s.recover(peer)
	if strings.EqualFold(string(words[0]), "PSUBSCRIBE") && slices.ContainsFunc(words[1:], func(p []byte) bool { return !s.compiles(p) }) {
		peer.WriteError(badPattern)
		return
	}
	if nowNs := s.now(); s.store.isDue(nowNs) {
		s.refresh(nowNs)
	}
	redis := s.store.redis.Server()
	name, all := string(words[0]), bounded(texts(words))
	if !boundExpiry(all, s.now()) {
		peer.WriteError(tooFar)
		return
	}
	redis.Dispatch(peer, all)
	if redis.IsRegisteredCommand(name) && !redis.IsReadOnlyCommand(name) {
		s.host.StoreChanged()
		s.store.changed = s.store.changed || !harmless[strings.ToUpper(name)]
	}
}

// harmless are commands that change no key, though miniredis does not know them as commands that only read.
var harmless = map[string]bool{"PING": true, "ECHO": true, "PUBLISH": true, "SUBSCRIBE": true, "UNSUBSCRIBE": true, "PSUBSCRIBE": true, "PUNSUBSCRIBE": true, "PUBSUB": true, "DBSIZE": true, "SCRIPT": true}

// ask has miniredis run a command for the server itself, and returns the reply as it would be sent.
func (s *server) ask(resp3 bool, words ...string) string {
	s.scratch.Resp3 = resp3
	s.store.redis.Server().Dispatch(s.scratch, words)
	s.scratch.Flush()
	defer s.scratchReply.Reset()
	return s.scratchReply.String()
}

func texts(words [][]byte) []string {
	all := make([]string, len(words))
	for i, word := range words {
		all[i] = string(word)
	}
	return all
}

// forget removes a client that has gone. What it waited for goes to those behind it.
func (s *server) forget(c *client) {
	s.lock()
	defer s.mu.Unlock()
	delete(s.clients, c.id)
	c.stopWaiting()
	s.aside(c.peer, "UNSUBSCRIBE")
	s.aside(c.peer, "PUNSUBSCRIBE")
	s.answerWaiting()
}

func (s *server) unblock(c *client) {
	s.blocked = slices.DeleteFunc(s.blocked, func(b *client) bool { return b == c })
}
