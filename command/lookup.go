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

// NamedMembers returns the members that a call names.
func (cmd *Command) NamedMembers(args [][]byte) [][]byte {
	if cmd.MemberWord == "" {
		return nil
	}
	for i := 1; i < len(args); i++ {
		if (&word{name: cmd.MemberWord}).is(args[i]) {
			return args[i+1:][:min(len(args)-i-1, cmd.MaxMembers)]
		}
	}
	return nil
}
