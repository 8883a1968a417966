package command

// What several commands say of themselves.

const perLimit = "O(N) where N is the number of limits, at most 8. A WINDOW adds O(1), at most 65 entries."

// limitFields are the names in a reply of the CL.LIMIT family. New ones come at the end.
var limitFields = []string{"limited", "rule", "limit", "remaining", "retry_after_ms", "reset_after_ms", "next_after_ms", "granted", "wait_ms", "shadow"}

var (
	keyArg     = Arg{Name: "key", Type: ArgKey}
	costArg    = Arg{Name: "units", Type: ArgInteger, Token: "COST", Optional: true}
	compactArg = Arg{Name: "compact", Type: ArgToken, Token: "COMPACT", Optional: true}
	takeArg    = Arg{Name: "units", Type: ArgInteger, Token: "TAKE", Optional: true}
	spareArg   = Arg{Name: "units", Type: ArgInteger, Token: "SPARE", Optional: true}
	shadowArg  = Arg{Name: "shadow", Type: ArgToken, Token: "SHADOW", Optional: true}

	limitsArg       = limitsWith(takeArg, spareArg, shadowArg)
	limitsArgRefund = limitsWith(takeArg, shadowArg)
)

// rateArgs are those of a RATE, and of what else may be said of it.
func rateArgs(terms ...Arg) []Arg {
	return append([]Arg{
		{Name: "count/period", Type: ArgString, Token: "RATE"},
		{Name: "capacity", Type: ArgInteger, Token: "BURST", Optional: true},
	}, terms...)
}

func limitsWith(terms ...Arg) Arg {
	one := func(token string) []Arg {
		return append([]Arg{{Name: "count/period", Type: ArgString, Token: token}}, terms...)
	}
	fixed := append([]Arg{
		{Name: "count/period", Type: ArgString, Token: "FIXED"},
		{Name: "windows", Type: ArgOneOf, Optional: true, Args: []Arg{
			{Name: "first", Type: ArgToken, Token: "FIRST"},
			{Name: "calendar", Type: ArgBlock, Args: []Arg{
				{Name: "duration", Type: ArgString, Token: "OFFSET", Optional: true},
				{Name: "zone", Type: ArgString, Token: "TZ", Optional: true},
			}},
		}},
	}, terms...)
	return Arg{Name: "limit", Type: ArgOneOf, Multiple: true, Args: []Arg{
		{Name: "rate", Type: ArgBlock, Args: rateArgs(terms...)},
		{Name: "window", Type: ArgBlock, Args: one("WINDOW")},
		{Name: "fixed", Type: ArgBlock, Args: fixed},
	}}
}
