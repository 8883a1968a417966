package embedded

import (
	"redis-throttle/limiter/command"
	"redis-throttle/limiter/line"
)

// Call is one command, as a client sends it.
type Call struct {
	NowNs    int64    // the clock, ns since the Unix epoch
	DB       int      // the database that the client selected
	MayBlock bool     // the caller can be made to wait, as it cannot be in MULTI
	Words    [][]byte // the command's name and its arguments

	turn turn
}

// turn is where the caller stands in line; the zero value is a caller that arrives and finds nobody.
type turn struct {
	turn     command.Turn
	waitedNs int64
	isFull   bool                      // nobody else may begin to wait
	lines    [command.MaxKeys]lineView // of the keys, in their order
}

// lineView is what a call sees of the line of a key: who is ahead, and what the latest caller told it, if somebody is
// ahead or waited.
type lineView struct {
	line.View    // its ID is 0 without a line
	ahead, slots int64
}

func (t *turn) show(i int, to *command.Key) {
	l := t.lines[i]
	to.Ahead, to.Line, to.LineSlots = l.ahead, l.View, command.NoSlots
	if t.turn != command.Arriving || l.ahead > 0 {
		to.LineSlots = l.slots
	}
	to.ToldSlots = to.LineSlots
}

// Runner runs commands on keys that its caller keeps. The zero value is ready for use. A Runner is not safe for
// concurrent use.
type Runner struct {
	call    command.Call
	past    command.Past
	top     command.TopKeys
	in      command.In
	keys    [command.MaxKeys]command.Key
	rooms   [command.MaxKeys][]byte // for the values of keys, made when a call needs them
	members [command.MaxKeys]command.Members
	ids     [][]byte // of the leases that the call names
}

// Run decides a call and applies its effects to its keys, in the order in which it names them. What it returns says
// what came of it, and is valid until the next call.
func (r *Runner) Run(cmd *command.Command, call *Call, keys ...*Key) *command.Call {
	c := r.Decide(cmd, call, keys...)
	r.Apply(keys...)
	return c
}

// Decide is Run up to where the effects are to be applied. The keys are only deleted if their time is over.
func (r *Runner) Decide(cmd *command.Command, call *Call, keys ...*Key) *command.Call {
	c := r.show(cmd, call, keys...)
	c.Run(cmd)
	if c.Reply == command.ReplyElsewhere {
		r.showKeys(cmd, call, keys, c.First.Members.NamesAt, c.First.Members.SlotsAt)
		c.Run(cmd)
	}
	r.ids = nil
	if cmd.OnSortedSet && len(keys) > 0 {
		r.ids = c.Named(cmd)
	}
	return c
}

// show gives a command its view of a call and its keys.
func (r *Runner) show(cmd *command.Command, call *Call, keys ...*Key) *command.Call {
	c := &r.call
	c.In = &r.in
	args := call.Words[1:]
	c.NowNs, c.DB, c.MayBlock = call.NowNs, call.DB, call.MayBlock
	c.Past, c.Top = &r.past, &r.top
	c.ArgCount, c.Args = len(args), args[:min(len(args), cmd.ViewedArgs())]
	c.Turn, c.WaitedNs, c.IsFull = call.turn.turn, call.turn.waitedNs, call.turn.isFull
	c.Keys, c.First = r.keys[:len(keys)], &r.keys[0]
	r.keys[0].Members = nil
	namesAt := cmd.NamesAt
	if namesAt < 0 {
		namesAt += len(args)
	}
	r.showKeys(cmd, call, keys, namesAt, cmd.SlotsAt)
	return c
}

// showKeys gives the call in hand its view of its keys. A command on sorted sets names members, and says how many there
// may be, at namesAt and slotsAt.
func (r *Runner) showKeys(cmd *command.Command, call *Call, keys []*Key, namesAt, slotsAt int) {
	c := &r.call
	for i, key := range keys {
		key.Expire(call.NowNs)
		key.show(&c.Keys[i])
		if cmd.SeesExpiry {
			c.Keys[i].ExpireAtMs = key.ExpireAtMs
		}
		c.Keys[i].Room = r.room(i)
		call.turn.show(i, &c.Keys[i])
		if cmd.OnSortedSet {
			c.Keys[i].Members = &r.members[i]
			r.members[i].NamesAt, r.members[i].SlotsAt = namesAt, slotsAt
		}
	}
	if !cmd.OnSortedSet || len(keys) == 0 {
		return
	}
	ids := c.Named(cmd)
	for i, key := range keys {
		key.showLeases(&c.Keys[i], &r.members[i], c.NowNs, ids)
	}
}

func (r *Runner) room(i int) []byte {
	if r.rooms[i] == nil {
		r.rooms[i] = make([]byte, 0, command.MaxValueLen)
	}
	return r.rooms[i]
}

// Apply applies the effects of the call that was decided last to its keys.
func (r *Runner) Apply(keys ...*Key) {
	for i, key := range keys {
		if r.call.Keys[i].Effect == command.ChangeMembers {
			key.applyLeases(r.call.Keys[i].Members, r.ids)
		} else {
			key.apply(&r.call.Keys[i])
		}
	}
}
