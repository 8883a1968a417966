// Package about has what the packages beside ratelimit see of a limit, and its users do not.
package about

import "time"

// Limit is what a limit holds. Limits that Validate refuses may hold anything. See Of.
type Limit struct {
	Rate, Fixed bool
	Count       int64 // units in a Period
	Period      Period
	Capacity    int64 // how many units go at once
	Spare       int64
	Takes       bool // Take was called
	Take        int64
	Settles     bool // Used was called
	Used        int64
	Shadow      bool
	Name, Unit  string
	Called      string // what the limit of a policy is called that has no Name
	// Words are what a command takes. They must not be changed.
	Words []any
}

// Of returns what a limit holds, which is a *ratelimit.Limit. Package ratelimit sets it.
var Of func(limit any) Limit

// PolicyOf returns the name of the policy that a *ratelimit.Limit belongs to, empty if to none.
var PolicyOf func(limit any) string

// Unbind makes a *ratelimit.Limit belong to no policy. It keeps what it is called.
var Unbind func(limit any)

// Period is a Length, or, by the calendar, Units of MeanSeconds each.
type Period struct {
	Length             time.Duration
	Units, MeanSeconds int64
}
