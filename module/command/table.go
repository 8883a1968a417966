package command

// Command is one row of the module's registration table.
type Command struct {
	Name  string
	Flags string // as RedisModule_CreateCommand takes them
	// decide answers the call. The key is the first argument of every command.
	decide func(*Call)
}

// Table lists every command; its index is how the bridge names one.
var Table = [...]Command{
	{Name: "cl.throttle", Flags: "write fast deny-oom", decide: throttle},
}
