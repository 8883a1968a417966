package command

// What several commands say of themselves.

const perLimit = "O(N) where N is the number of limits, at most 8. A WINDOW adds O(1), at most 65 entries."

// limitFields are the names in a reply of the CL.LIMIT family. New ones come at the end.
var limitFields = []string{"limited", "rule", "limit", "remaining", "retry_after_ms", "reset_after_ms", "next_after_ms", "granted", "wait_ms"}

var (
	keyArg     = Arg{Name: "key", Type: ArgKey}
	costArg    = Arg{Name: "units", Type: ArgInteger, Token: "COST", Optional: true}
	compactArg = Arg{Name: "compact", Type: ArgToken, Token: "COMPACT", Optional: true}

	rateArgs = []Arg{
		{Name: "count/period", Type: ArgString, Token: "RATE"},
		{Name: "capacity", Type: ArgInteger, Token: "BURST", Optional: true},
	}
	limitsArg = Arg{Name: "limit", Type: ArgOneOf, Multiple: true, Args: []Arg{
		{Name: "rate", Type: ArgBlock, Args: rateArgs},
		{Name: "count/period", Type: ArgString, Token: "WINDOW"},
		{Name: "count/period", Type: ArgString, Token: "FIXED"},
	}}
)
