// Code generated from spec/replies.json by go generate ./spec; DO NOT EDIT.

// Package positions says where the fields of replies with COMPACT are, also in Call.Integers of package command.
package positions

// The positions of fields in replies with COMPACT, and how many there are.
const (
	ThrottleLimited    = 0
	ThrottleLimit      = 1
	ThrottleRemaining  = 2
	ThrottleRetryAfter = 3
	ThrottleResetAfter = 4
	ThrottleFields     = 5

	LimitLimited      = 0
	LimitRule         = 1
	LimitLimit        = 2
	LimitRemaining    = 3
	LimitRetryAfterMs = 4
	LimitResetAfterMs = 5
	LimitNextAfterMs  = 6
	LimitGranted      = 7
	LimitWaitMs       = 8
	LimitShadow       = 9
	LimitFields       = 10

	MlimitLimited      = 0
	MlimitRule         = 1
	MlimitLimit        = 2
	MlimitRemaining    = 3
	MlimitRetryAfterMs = 4
	MlimitResetAfterMs = 5
	MlimitNextAfterMs  = 6
	MlimitGranted      = 7
	MlimitWaitMs       = 8
	MlimitShadow       = 9
	MlimitKey          = 10
	MlimitFields       = 11

	SettleSettled      = 0
	SettleRule         = 1
	SettleLimit        = 2
	SettleRemaining    = 3
	SettleRetryAfterMs = 4
	SettleResetAfterMs = 5
	SettleNextAfterMs  = 6
	SettleGranted      = 7
	SettleWaitMs       = 8
	SettleShadow       = 9
	SettleKey          = 10
	SettleFields       = 11

	LeaseLimited      = 0
	LeaseLimit        = 1
	LeaseRemaining    = 2
	LeaseRetryAfterMs = 3
	LeaseLeaseMs      = 4
	LeaseWaitMs       = 5
	LeaseFields       = 6

	EachLimited      = 0
	EachLimit        = 1
	EachRemaining    = 2
	EachRetryAfterMs = 3
	EachResetAfterMs = 4
	EachFields       = 5
)
