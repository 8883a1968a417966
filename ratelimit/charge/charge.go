// Package charge says what a call is charged that does not find all the units that it costs. Without a Mode, that is
// nothing.
package charge

// Mode is ratelimit.Call.Charge. The values are the words that the clients of other languages take.
type Mode string

const (
	// UpTo takes as much of the Cost as there is, at least one unit; Result.Granted is what it took.
	UpTo Mode = "up_to"
	// Strict charges a denied call as well, up to an empty bucket, so that a caller that keeps retrying stays blocked.
	Strict Mode = "strict"
	// Force charges the call even if the units are not there, into debt.
	Force Mode = "force"
)
