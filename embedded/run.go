package embedded

import "redis-throttle/command"

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
	turn            command.Turn
	ahead           int64
	slots, waitedNs int64 // slots only if somebody is ahead or waited
}

// Runner runs commands on keys that its caller keeps. The zero value is ready for use. A Runner is not safe for concurrent
// use.
type Runner struct {
	call    command.Call
	past    command.Past
	top     command.TopKeys
	members command.Members
	ids     [][]byte // of the leases that the call names
}

// Run decides a call and applies its effects to its keys, in the order in which it names them. What it returns says what
// came of it, and is valid until the next call.
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
		r.showLeases(cmd, keys[0])
		c.Run(cmd)
	}
	return c
}

// show gives a command its view of a call and its keys.
func (r *Runner) show(cmd *command.Command, call *Call, keys ...*Key) *command.Call {
	c := &r.call
	args := call.Words[1:]
	c.NowNs, c.DB, c.MayBlock = call.NowNs, call.DB, call.MayBlock
	c.Past, c.Top = &r.past, &r.top
	c.ArgCount, c.Args = len(args), args[:min(len(args), cmd.ViewedArgs())]
	c.Turn, c.Ahead, c.LineSlots, c.WaitedNs = call.turn.turn, call.turn.ahead, command.NoSlots, call.turn.waitedNs
	if c.Turn != command.Arriving || c.Ahead > 0 {
		c.LineSlots = call.turn.slots
	}
	c.Keys, c.Key, c.Members = c.KeysRoom[:len(keys)], &c.KeysRoom[0], nil
	for i, key := range keys {
		key.Expire(call.NowNs)
		key.show(&c.Keys[i])
	}
	if cmd.OnSortedSet {
		c.Members = &r.members
		c.Members.NamesAt, c.Members.SlotsAt = cmd.NamesAt, cmd.SlotsAt
		r.showLeases(cmd, keys[0])
	}
	return c
}

// showLeases gives the call in hand its view of a key of leases.
func (r *Runner) showLeases(cmd *command.Command, key *Key) {
	r.ids = r.call.Named(cmd)
	key.showLeases(r.call.Key, &r.members, r.call.NowNs, r.ids)
}

// Apply applies the effects of the call that was decided last to its keys.
func (r *Runner) Apply(keys ...*Key) {
	for i, key := range keys {
		if r.call.Keys[i].Effect == command.ChangeMembers {
			key.applyLeases(r.call.Members, r.ids)
		} else {
			key.apply(&r.call.Keys[i])
		}
	}
}
