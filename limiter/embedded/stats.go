package embedded

import (
	"cmp"
	"strings"

	"redis-throttle/limiter/command"
)

// Stat is a number of INFO throttle, under the name that it has there.
type Stat struct {
	Name  string
	Count int64
}

// stats counts what INFO throttle shows, as module/stats.c and module/line.c do.
type stats struct {
	calls                                   map[*command.Command]int64
	allowed, limited, shadowed, refunded    int64
	waited, waitLeft, turnedAway            int64
	settled, notSettled                     int64
	leased, renewed, notLeased              int64
	released, lapsed                        int64
	errorsArity, errorsType, errorsArgument int64
}

// Stats returns the numbers of INFO throttle, in their order there, as of now.
func (h *Host) Stats() []Stat {
	s := &h.stats
	all := []Stat{{"calls", 0}}
	for _, cmd := range command.All {
		if cmd.Keys != command.NoKeys {
			all[0].Count += s.calls[cmd]
			all = append(all, Stat{cmd.Counter(), s.calls[cmd]})
		}
	}
	forLimits, forLeases := h.waits()
	return append(all, Stat{"allowed", s.allowed}, Stat{"limited", s.limited}, Stat{"shadowed", s.shadowed}, Stat{"refunded_units", s.refunded},
		Stat{"waiting", forLimits}, Stat{"waited", s.waited}, Stat{"wait_left", s.waitLeft},
		Stat{"leases_granted", s.leased}, Stat{"leases_renewed", s.renewed}, Stat{"leases_limited", s.notLeased},
		Stat{"leases_released", s.released}, Stat{"leases_lapsed", s.lapsed}, Stat{"leases_waiting", forLeases},
		Stat{"max_waiting", int64(h.MaxWaiting)}, Stat{"turned_away", s.turnedAway},
		Stat{"settled", s.settled}, Stat{"not_settled", s.notSettled},
		Stat{"errors_arity", s.errorsArity}, Stat{"errors_argument", s.errorsArgument}, Stat{"errors_wrongtype", s.errorsType})
}

// waits returns how many callers wait for limits, and how many for leases.
func (h *Host) waits() (forLimits, forLeases int64) {
	for _, one := range h.callers {
		if one.cmd.OnSortedSet {
			forLeases++
		} else {
			forLimits++
		}
	}
	return forLimits, forLeases
}

func (s *stats) call(cmd *command.Command) {
	if s.calls == nil {
		s.calls = map[*command.Command]int64{}
	}
	s.calls[cmp.Or(cmd.AliasOf, cmd)]++
}

// countDecision counts a decision that was made, whether the caller then waits or not.
func (s *stats) countDecision(c *command.Call) {
	s.answer(c)
	for i := range c.Keys {
		if m := c.Keys[i].Members; m != nil {
			s.members(m)
		}
	}
}

func (s *stats) members(m *command.Members) {
	switch m.Event {
	case command.Leased:
		s.leased++
	case command.Renewed:
		s.renewed++
	case command.NotLeased:
		s.notLeased++
	}
	s.released += int64(m.Released)
	s.lapsed += int64(m.Found)
}

func (s *stats) answer(c *command.Call) {
	switch c.Tally {
	case command.Allowed:
		s.allowed++
	case command.Limited:
		s.limited++
	case command.Settled:
		s.settled++
	case command.NotSettled:
		s.notSettled++
	}
	if c.Shadowed {
		s.shadowed++
	}
	if c.TurnedAway {
		s.turnedAway++
	}
	s.refunded += c.Refunded
	switch {
	case c.Reply == command.ReplyWrongArity:
		s.errorsArity++
	case c.Reply == command.ReplyError && strings.HasPrefix(string(c.Error), "WRONGTYPE"):
		s.errorsType++
	case c.Reply == command.ReplyError:
		s.errorsArgument++
	}
}
