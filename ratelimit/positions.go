// Code generated from spec/replies.json by go generate ./spec; DO NOT EDIT.

package ratelimit

// The positions of fields in replies with COMPACT, and how many there are.
const (
	throttleLimited    = 0
	throttleLimit      = 1
	throttleRemaining  = 2
	throttleRetryAfter = 3
	throttleResetAfter = 4
	throttleFields     = 5

	limitLimited      = 0
	limitRule         = 1
	limitLimit        = 2
	limitRemaining    = 3
	limitRetryAfterMs = 4
	limitResetAfterMs = 5
	limitNextAfterMs  = 6
	limitGranted      = 7
	limitWaitMs       = 8
	limitShadow       = 9
	limitFields       = 10

	mlimitLimited      = 0
	mlimitRule         = 1
	mlimitLimit        = 2
	mlimitRemaining    = 3
	mlimitRetryAfterMs = 4
	mlimitResetAfterMs = 5
	mlimitNextAfterMs  = 6
	mlimitGranted      = 7
	mlimitWaitMs       = 8
	mlimitShadow       = 9
	mlimitKey          = 10
	mlimitFields       = 11

	settleSettled      = 0
	settleRule         = 1
	settleLimit        = 2
	settleRemaining    = 3
	settleRetryAfterMs = 4
	settleResetAfterMs = 5
	settleNextAfterMs  = 6
	settleGranted      = 7
	settleWaitMs       = 8
	settleShadow       = 9
	settleKey          = 10
	settleFields       = 11

	leaseLimited      = 0
	leaseLimit        = 1
	leaseRemaining    = 2
	leaseRetryAfterMs = 3
	leaseLeaseMs      = 4
	leaseWaitMs       = 5
	leaseFields       = 6

	eachLimited      = 0
	eachLimit        = 1
	eachRemaining    = 2
	eachRetryAfterMs = 3
	eachResetAfterMs = 4
	eachFields       = 5
)
