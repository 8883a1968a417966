// Package embedded runs the commands of the module without a server, on keys in memory or in a Store. It decides with
// the same code and applies the same effects as the module does: answers, values and expiry are those of a server.
//
// It has no socket, no goroutine and no clock: each call says what time it is.
package embedded

import (
	"slices"
	"strconv"
	"strings"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/line"
)

// Host is a server's keys, in any number of databases. The zero value has none, keeps them in memory and is ready for
// use. A Host is not safe for concurrent use.
type Host struct {
	// Store keeps the keys; nil for memory of the Host's own. Set it before the first call.
	Store Store
	// MaxWaiting is how many callers may wait at the same time, as throttle.max-waiting; 0 for any number. Beyond it, a
	// call that would wait is answered at once, as without MayBlock.
	MaxWaiting int

	aliases []*command.Command // that are offered

	memory memory
	runner Runner
	stats  stats
	waiting
}

// Store keeps the keys of a Host somewhere else, among keys of others.
type Store interface {
	// Get returns a key; one that does not exist if there is none. The Host may change the Key, and says so by Put. Its
	// slices are only read.
	Get(db int, name string) *Key
	// Put keeps a key that a call has changed, or deletes it if it does not exist.
	Put(db int, name string, key *Key)
}

type name struct {
	db  int
	key string
}

// Reply is the answer to a call. Its slices are valid until the next call.
type Reply struct {
	Kind     command.ReplyKind
	Error    string                      // of ReplyError, with its code in front
	Integers []int64                     // of ReplyInteger, ReplyIntegers and ReplyFields, also with Each; of ReplyLeases those in front of the rows
	Names    []string                    // of ReplyFields those of Integers; of ReplyRows, ReplyNested and ReplyLeases all names of the command's reply
	Each     [][command.EachFields]int64 // of ReplyIntegersEach and ReplyFieldsEach: one for each limit
	Rows     []Row                       // of ReplyRows, ReplyNested and ReplyLeases
	Groups   []Row                       // of ReplyLeases: the groups of callers that wait, as many as are listed
	GroupsIn int64                       // and how many there are in the line
	Waiter   Waiter                      // of a caller that waits, whose Kind is ReplyLater or ReplyInTurn: Wake tells the answer
}

// Row is one entry of a list in a reply: a text, then integers.
type Row struct {
	Text     string
	Integers []int64
}

// ResizeTop makes CL.TOP count keys keys, at most top.MaxEntries, and forgets what was counted. Without it, or with 0,
// CL.TOP is off.
func (h *Host) ResizeTop(keys int) { h.runner.top.Resize(keys) }

// Offer adds other names of commands to those that Do runs. Without it there are none.
func (h *Host) Offer(aliases []*command.Command) { h.aliases = aliases }

// Commands are those that Do runs.
func (h *Host) Commands() []*command.Command { return slices.Concat(command.All, h.aliases) }

// Named returns one of Commands, or nil.
func (h *Host) Named(name []byte) *command.Command {
	if cmd := command.Named(name); cmd != nil {
		return cmd
	}
	return command.Among(h.aliases, name)
}

// Do runs a command.
func (h *Host) Do(call Call) Reply {
	if len(call.Words) == 0 {
		return failed("ERR no command")
	}
	cmd := h.Named(call.Words[0])
	if cmd == nil {
		return failed("ERR unknown command '" + string(call.Words[0]) + "'")
	}
	args := call.Words[1:]
	if arity := cmd.Arity(); arity >= 0 && 1+len(args) != arity || 1+len(args) < -arity {
		return wrongArity(cmd)
	}
	var names []name
	var keys []*Key
	for _, key := range keysOf(cmd, args) {
		n := name{call.DB, string(key)}
		names, keys = append(names, n), append(keys, h.key(n))
	}
	now := h.pass(call.NowNs)
	call.turn.isFull = h.MaxWaiting > 0 && len(h.callers) >= h.MaxWaiting
	if cmd.Lines {
		for i, n := range names {
			l := &call.turn.lines[i]
			l.View, l.ahead, l.slots = h.lines.Look(call.DB, []byte(n.key))
		}
	}
	c := h.runner.Run(cmd, &call, keys...)
	h.stats.call(cmd)
	h.stats.countDecision(c)
	for i, n := range names {
		h.storeKey(n, keys[i], c.Keys[i].Effect)
	}
	for i := range names {
		if id := call.turn.lines[i].ID; id != 0 {
			h.wake(h.lines.Tell(id, c.Keys[i].ToldSlots))
		}
	}
	r := reply(c, cmd, keys)
	if c.Reply == command.ReplyLater || c.Reply == command.ReplyInTurn {
		r.Waiter = h.enter(c, &call, cmd, names[0], now)
	}
	return r
}

// storeKey stores a key with the effect of a decision, and tells the line of the key.
func (h *Host) storeKey(n name, key *Key, effect command.Effect) {
	if effect == command.Keep {
		return
	}
	h.put(n, key)
	h.changed(n)
}

// keysOf returns the keys of a call; none if what says how many there are is wrong, which the command itself tells.
func keysOf(cmd *command.Command, args [][]byte) [][]byte {
	switch cmd.Keys {
	case command.OneKey:
		return args[:1]
	case command.CountedKeys:
		n, err := strconv.Atoi(string(args[0]))
		if err != nil || n < 1 || n > command.MaxKeys || n > len(args)-1 {
			return nil
		}
		return args[1 : 1+n]
	}
	return nil
}

func (h *Host) key(n name) *Key {
	if h.Store != nil {
		return h.Store.Get(n.db, n.key)
	}
	return h.memory.get(n)
}

func (h *Host) put(n name, key *Key) {
	if h.Store != nil {
		h.Store.Put(n.db, n.key, key)
		return
	}
	h.memory.put(n, key, h.wallNs)
}

// Get returns the key as it is at nowNs, nil if it does not exist. The key is the Host's: change nothing in it.
func (h *Host) Get(nowNs int64, db int, key string) *Key {
	k := h.key(name{db, key})
	if k.Expire(nowNs); !k.Exists() {
		return nil
	}
	return k
}

// Delete deletes a key.
func (h *Host) Delete(db int, key string) {
	n := name{db, key}
	h.put(n, &Key{})
	h.changed(n)
}

// StoreChanged notes that somebody else may have changed any key of the Store. Wake then looks at all lines.
func (h *Host) StoreChanged() { h.lines.AllChanged(line.AllDBs, h.wake) }

func reply(c *command.Call, cmd *command.Command, keys []*Key) Reply {
	r := Reply{Kind: c.Reply, Integers: c.Integers, Names: cmd.Fields}
	if c.Reply == command.ReplyIntegersEach || c.Reply == command.ReplyFieldsEach {
		r.Each = c.Each
	}
	switch c.Reply {
	case command.ReplyError:
		return failed(string(c.Error))
	case command.ReplyWrongArity:
		return wrongArity(cmd)
	case command.ReplyFields, command.ReplyFieldsEach:
		r.Names = cmd.Fields[:len(c.Integers)]
	case command.ReplyRows, command.ReplyNested:
		r.Rows = rowsOf(c)
	case command.ReplyLeases:
		most := c.Integers[2]
		r.Integers, r.GroupsIn = c.Integers[:2], c.Integers[3]
		r.Groups = rowsOf(c)
		key := keys[0]
		for _, l := range key.Leases[key.above(float64(c.NowNs/nsPerMs)):] {
			if int64(len(r.Rows)) == most {
				break
			}
			r.Rows = append(r.Rows, Row{l.ID, []int64{(int64(l.Score)*nsPerMs - c.NowNs) / nsPerMs}})
		}
	}
	return r
}

func rowsOf(c *command.Call) (rows []Row) {
	for i := range c.RowCount {
		text, integers := c.Row(i)
		rows = append(rows, Row{string(text), append([]int64(nil), integers...)})
	}
	return rows
}

func failed(text string) Reply { return Reply{Kind: command.ReplyError, Error: text} }

func wrongArity(cmd *command.Command) Reply {
	return failed("ERR wrong number of arguments for '" + strings.ToLower(cmd.Name) + "' command")
}
