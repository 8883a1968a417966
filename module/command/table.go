package command

// Index names a command; its number is the bridge's too.
type Index int32

const (
	Throttle Index = iota
	Limit
	Peek
	Refund
	Wait
)

// decisions lists what answers each command. The key is the first argument of all.
var decisions = [...]func(*Call){
	Throttle: throttle,
	Limit:    limit,
	Peek:     peek,
	Refund:   refund,
	Wait:     wait,
}
