// Package peer shows the packages beside ratelimit what its users do not see of a limit. Package ratelimit sets the
// functions when it is loaded. Their argument is a *ratelimit.Limit.
package peer

// Limit is what a limit holds.
type Limit struct {
	Rate     bool
	Fixed    bool
	Capacity int64 // how many units go at once
	Spare    int64
	Takes    bool // Take was called
	Shadow   bool
	Unit     string
}

var (
	// Describe shows a limit.
	Describe func(limit any) Limit
	// Check finds what is wrong with a limit in itself.
	Check func(limit any) error
	// Words are what a command takes. They must not be changed.
	Words func(limit any) []any
	// Name is what Limit.Named gave, "" without.
	Name func(limit any) string
	// Quota is what the header fields announce: the units that a limit gets back in a number of seconds.
	Quota func(limit any) (quota, windowSeconds int64)
	// Interval is the emission interval of a rate in ns, rounded down; 0 for other limits and those that cannot be.
	Interval func(limit any) int64
)
