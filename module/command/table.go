package command

// Kind says how the bridge runs a command.
type Kind int32

const (
	Write    Kind = iota // the key is opened for writing
	Read                 // the key is opened for reading and never written
	Blocking             // like Write, and the caller may have to wait
)

// Command is one row of the module's registration table.
type Command struct {
	Name  string
	Kind  Kind
	Flags string // as RedisModule_CreateCommand takes them
	// decide answers the call. The key is the first argument of every command.
	decide func(*Call)
}

// Table lists every command; its index is how the bridge names one.
var Table = [...]Command{
	{Name: "cl.throttle", Kind: Write, Flags: "write fast deny-oom", decide: throttle},
	{Name: "cl.limit", Kind: Write, Flags: "write fast deny-oom", decide: limit},
	{Name: "cl.peek", Kind: Read, Flags: "readonly fast", decide: peek},
	{Name: "cl.refund", Kind: Write, Flags: "write fast", decide: refund},
	{Name: "cl.wait", Kind: Blocking, Flags: "write deny-oom", decide: wait},
}
