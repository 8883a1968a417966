package linearizability

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/anishathalye/porcupine"
)

// takeover is a replica's, while its former master may still have answered.
type takeover struct {
	event *succession
	// began is when the two began to lose touch, and apart when they had: the successor knows of nothing that was asked
	// later. healed is when the former master knew of its successor.
	began, apart, healed int64
}

// check compares the history of each object with the model, and returns the names of those that no order of the
// operations explains, and of those that the checker could not decide within its patience. An object is independent of
// all others.
func (h *history) check() (failed, undecided []string) {
	for _, subject := range h.subjects() {
		for _, line := range h.lines(subject) {
			switch porcupine.CheckOperationsTimeout(model(h.begin(subject, line)), line.operations, patience) {
			case porcupine.Illegal:
				failed = append(failed, line.name)
			case porcupine.Unknown:
				undecided = append(undecided, fmt.Sprintf("%s (%d operations)", line.name, len(line.operations)))
			}
		}
	}
	return failed, undecided
}

func (h *history) subjects() (subjects []subject) {
	seen := map[string]bool{}
	for _, op := range h.operations {
		if c, ok := op.Input.(*call); ok && !seen[c.of.name()] {
			seen[c.of.name()] = true
			subjects = append(subjects, c.of)
		}
	}
	return subjects
}

func (h *history) begin(of subject, l line) *state {
	return state{nowNs: h.beginsNs, ahead: h.ahead, object: of.begin(), mayLose: l.mayLose}.signed()
}

// line is operations that are one after the other in one copy of an object.
type line struct {
	name       string
	operations []porcupine.Operation
	mayLose    bool
}

// lines returns the histories of an object: one, or two where a former master still answered after a replica took over.
// The first is of the replica, in which the last calls of the former master may not have happened. The second is of the
// former master, as if nobody had taken over.
func (h *history) lines(of subject) []line {
	all := line{name: of.name()}
	for _, op := range h.operations {
		if !op.Input.(operation).concerns(of) || h.ofReplica(op) {
			continue
		}
		all.operations = append(all.operations, h.narrowed(op))
		_, isSuccession := op.Input.(*succession)
		all.mayLose = all.mayLose || isSuccession
	}
	i := slices.IndexFunc(h.takeovers, func(t takeover) bool { return t.event.concerns(of) })
	if i < 0 {
		return []line{all}
	}
	t := h.takeovers[i]
	former := line{name: of.name() + " of the former master"}
	successor := line{name: of.name(), mayLose: true}
	for _, op := range all.operations {
		out := op.Output.(*outcome)
		switch {
		case out.node == 0: // an event
			if op.Input != t.event {
				former.operations = append(former.operations, op)
			}
		case out.node == t.event.former && op.Return > t.began && op.Call < t.healed:
			former.operations = append(former.operations, op)
			if op.Call >= t.apart {
				continue
			}
			late := *out
			late.elsewhere = true
			op.Output = &late
		case op.Call < t.began && (out.node != t.event.node || op.Return < t.began || out.unknown):
			former.operations = append(former.operations, op)
		}
		successor.operations = append(successor.operations, op)
	}
	return []line{successor, former}
}

// longest is the longest order that explains a line up to some instant, the states at its end, and the
// first operations that are not in it.
func (h *history) longest(name string) (order []porcupine.Operation, states []*state, rest []porcupine.Operation) {
	var l line
	var begin *state
	for _, subject := range h.subjects() {
		for _, of := range h.lines(subject) {
			if of.name == name {
				l, begin = of, h.begin(subject, of)
			}
		}
	}
	_, info := porcupine.CheckOperationsVerbose(model(begin), l.operations, patience)
	for _, orders := range info.PartialLinearizationsOperations() {
		for _, o := range orders {
			if len(o) > len(order) {
				order = o
			}
		}
	}
	states = []*state{begin}
	contained := map[any]bool{}
	for _, op := range order {
		contained[op.Input] = true
		after := map[string]*state{}
		for _, s := range states {
			for _, next := range op.Input.(operation).next(s, op.Output.(*outcome)) {
				after[next.print] = next
			}
		}
		states = slices.Collect(maps.Values(after))
	}
	for _, op := range l.operations {
		if !contained[op.Input] {
			rest = append(rest, op)
		}
	}
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return order, states, rest
}
