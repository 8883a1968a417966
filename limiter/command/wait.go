package command

import (
	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/stack"
)

// CL.WAIT key limit [limit ...] [COST n] TIMEOUT duration [GROUP group [WEIGHT weight]] [PRIORITY priority] [COMPACT]
// [EACH]
//
// With rates it reserves a slot like CL.LIMIT with MAXWAIT, and is answered when the slot comes. With
// any other limit it waits in line, as CL.LEASE does, and reserves nothing. A TIMEOUT of 0 waits as long as it takes.
// In MULTI and in scripts, where a client cannot be blocked, it answers at once.
var Wait = register(&Command{
	Name:       "CL.WAIT",
	Summary:    "Waits until the units of all limits are available, then charges them.",
	Complexity: "O(N) where N is the number of limits, at most 8. O(M) when a caller ahead of M others leaves.",
	Since:      words.V010,
	Later:      map[string]string{words.V020: "WINDOW FIXED"},
	Flags:      "write deny-oom",
	Keys:       OneKey,
	Decides:    true,
	Blocks:     true,
	Lines:      true,
	Required:   "TIMEOUT",
	Fields:     limitFields,
	Run:        wait,
})

func wait(c *Call) {
	r, ok := c.read()
	if !ok {
		return
	}
	if !c.stack.RatesOnly() {
		c.takeInTurn(r)
		return
	}
	if !c.decodeStack() {
		return
	}
	if c.MayBlock && !c.IsFull {
		r.MaxWaitNs = longestWait(r)
	}
	if r.Each {
		c.judge()
	}
	if c.First.banned(c.NowNs) {
		c.describeOwnBan(&r.Request)
		return
	}
	c.Before = c.stack.Rates(c.before[:0], c.NowNs)
	result := c.stack.Take(r.Request, c.NowNs)
	c.store(result.Changed)
	if result.WaitNs == 0 {
		c.describe(&result)
		c.TurnedAway = result.Limited && c.MayBlock && c.IsFull && c.couldReserve(r)
		return
	}
	c.Reply = ReplyLater
	c.Cost, c.WaitNs = r.Cost, result.WaitNs
}

// longestWait is for how long the caller of a call with rates may be made to wait, in ns.
func longestWait(r *words.Request) int64 {
	if r.TimeoutNs == 0 {
		return int64(words.MaxDuration)
	}
	return r.TimeoutNs
}

// couldReserve reports whether a call that was limited at once would have got a slot to wait for.
func (c *Call) couldReserve(r *words.Request) bool {
	r.MaxWaitNs = longestWait(r)
	return c.stack.RetryAfter(&r.Request, c.NowNs) == 0
}

// mayWait reports whether a caller may be made to wait that would have to. If nobody else may, it is turned away.
func (c *Call) mayWait() bool {
	c.TurnedAway = c.MayBlock && c.IsFull
	return c.MayBlock && !c.IsFull
}

// takeInTurn takes units of limits that make no reservations, when it is the caller's turn.
func (c *Call) takeInTurn(r *words.Request) {
	if !c.decodeStack() {
		return
	}
	if r.Each {
		c.judge()
	}
	if c.First.banned(c.NowNs) {
		if c.Turn == AtFront {
			c.waitInTurn(c.First.banUntil-c.NowNs, r)
			return
		}
		c.describeOwnBan(&r.Request)
		return
	}
	isBehind := c.Turn == Arriving && c.First.Ahead > 0 && c.First.comeBefore(c.place(r), 1) > 0
	if isBehind && c.stack.RetryAfter(&r.Request, c.NowNs) != stack.Never && c.mayWait() {
		c.waitInTurn(0, r)
		return
	}
	if isBehind || c.Turn == Leaving {
		result := c.stack.Peek(r.Cost, c.NowNs)
		if !result.Limited {
			result.Limited, result.RetryAfterNs, result.Granted = true, 1, 0 // soon: 1 ms
		}
		c.describe(&result)
		return
	}
	result := c.stack.Take(r.Request, c.NowNs)
	c.store(result.Changed)
	if result.Limited && result.RetryAfterNs != stack.Never && c.mayWait() {
		c.waitInTurn(result.RetryAfterNs, r)
		return
	}
	if !result.Limited {
		result.WaitNs = c.WaitedNs
	}
	c.describe(&result)
}

// Answer describes the current state to a caller of cmd whose slot has come after
// waitedNs, or that left before. Its arguments were checked when it began
// to wait. The value of the key may have changed since; if it is not the state of a limiter, it counts
// as empty. A caller that left and could retry at once is told to retry after 0.
func (c *Call) Answer(cmd *Command, granted bool, waitedNs int64) {
	c.begin(cmd)
	r, ok := c.read()
	if !ok {
		return
	}
	if !c.decodeStack() {
		r, _ = c.read()
	}
	c.limiting = 0
	if granted {
		result := c.stack.Standing(r.Cost, c.NowNs)
		result.WaitNs = waitedNs
		c.describe(&result)
		return
	}
	if r.Each {
		c.judge()
	}
	if c.First.banned(c.NowNs) {
		c.describeOwnBan(&stack.Request{Cost: r.Cost})
		return
	}
	result := c.stack.Peek(r.Cost, c.NowNs)
	if !result.Limited {
		result.Limited, result.RetryAfterNs = true, 0
	}
	c.describe(&result)
}

// GiveBack writes what decide leaves in the stack, or nothing when it returns false.
// decide is given the key's value, empty when there is no key.
func (c *Call) GiveBack(decide func(value []byte, s *stack.Stack) bool) {
	c.begin(Wait)
	c.Reply = ReplyError // nobody reads it
	value := c.First.state()
	switch {
	case c.First.Kind == Absent || c.First.nothingKept():
		value = nil
	case c.First.Kind == Other || len(value) == 0:
		value = noState
	}
	c.store(decide(value, &c.stack))
}

// noState stands for what a key holds that is no limiter's state.
var noState = []byte("none")

// Stack is the limits of the call in hand and what is kept of them.
func (c *Call) Stack() *stack.Stack { return &c.stack }
