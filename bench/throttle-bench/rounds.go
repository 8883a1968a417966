package main

import (
	"context"
	"fmt"
	"math"
)

// rounds warms up, then measures: in every round each contender has one short slice of
// each kind, close in time to the others' slices of that kind.
func (l *lineup) rounds(ctx context.Context, p *progress, kinds []sliceKind) error {
	if err := l.warmUp(ctx, p, kinds); err != nil {
		return err
	}
	for round := range l.options.rounds {
		for _, kind := range kinds {
			for _, i := range order(len(l.entrants), round, l.options.rounds) {
				e := l.entrants[i]
				p.step(roundLabel(round, l.options.rounds, kind)+": "+e.Name, l.options.sliceSeconds())
				f, err := l.slice(ctx, e, kind, l.sliceRequests(e, kind))
				if err != nil {
					return err
				}
				e.record(kind, f)
			}
		}
	}
	return nil
}

// warmUp finds out how many calls fill a slice, which nobody asks where that number is
// given.
func (l *lineup) warmUp(ctx context.Context, p *progress, kinds []sliceKind) error {
	if l.options.requests > 0 {
		return nil
	}
	for _, kind := range kinds {
		for _, e := range l.entrants {
			p.step("warming up, "+kind.name+": "+e.Name, warmUpSeconds)
			f, err := l.slice(ctx, e, kind, kind.warmUp)
			if err != nil {
				return err
			}
			e.rate[kind.name] = f.CallsPerSecond
		}
	}
	return nil
}

// order is the order in which a round takes the contenders: each round begins further
// on, and every other one goes backwards, so that nobody always follows the same rival or
// the same pause.
func order(contenders, round, rounds int) []int {
	first := round * contenders / rounds
	step := 1
	if round%2 == 1 {
		step = contenders - 1 // one back, around the circle
	}
	turn := make([]int, contenders)
	for i := range turn {
		turn[i] = (first + i*step) % contenders
	}
	return turn
}

// sliceRequests is how many calls fill a slice at the rate that was found warming up.
func (l *lineup) sliceRequests(e *entrant, kind sliceKind) int {
	if l.options.requests > 0 {
		return l.options.requests
	}
	const unit = 1000
	requests := math.Round(e.rate[kind.name]*l.options.slice.Seconds()/unit) * unit
	if e.CallsPerKey > 0 {
		requests = min(requests, float64(e.CallsPerKey*l.keys))
	}
	return int(max(requests, unit))
}

// What a slice is thought to take, for the progress line. The overhead is setting up,
// verifying and starting the load generator.
const (
	sliceOverheadSeconds = 0.15
	warmUpSeconds        = sliceOverheadSeconds + 0.1
)

func (o options) sliceSeconds() float64 {
	if o.requests > 0 {
		return sliceOverheadSeconds + float64(o.requests)/50_000
	}
	return sliceOverheadSeconds + o.slice.Seconds()
}

// plannedSeconds is what rounds will take.
func (o options) plannedSeconds(kinds, contenders int) float64 {
	seconds := float64(o.rounds) * o.sliceSeconds()
	if o.requests == 0 {
		seconds += warmUpSeconds
	}
	return float64(kinds*contenders) * seconds
}

func roundLabel(round, rounds int, kind sliceKind) string {
	return fmt.Sprintf("round %d of %d, %s", round+1, rounds, kind.name)
}
