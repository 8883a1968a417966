package command

import "bytes"

// Named returns the command with a name, whatever its case; nil if there is none.
func Named(name []byte) *Command {
	for _, cmd := range All {
		if len(cmd.Name) == len(name) && bytes.EqualFold([]byte(cmd.Name), name) {
			return cmd
		}
	}
	return nil
}

// ViewedArgs is how many of its arguments a call is given views of.
func (cmd *Command) ViewedArgs() int {
	if cmd.Keys == CountedKeys {
		return MaxArgsOfKeys
	}
	return MaxArgs
}

// Named returns the members that a call names, if its words stand where Members says.
func (c *Call) Named(cmd *Command) [][]byte {
	at := c.Members.NamesAt
	if at <= 0 || at >= len(c.Args) {
		return nil
	}
	return c.Args[at:min(len(c.Args), at+cmd.MaxMembers)]
}
