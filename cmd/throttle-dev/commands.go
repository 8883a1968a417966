package main

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"

	dev "github.com/alicebob/miniredis/v2/server"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/command/words"
)

// COMMAND [COUNT | INFO [name ...] | DOCS [name ...] | GETKEYS name [word ...] | LIST]
func commandCommand(c *call) {
	switch sub := c.word(1); {
	case sub == "":
		c.peer.WriteRaw(c.everyCommand())
	case sub == "COUNT" && len(c.words) == 2:
		c.peer.WriteInt(c.foreignCount() + len(c.host.Commands()))
	case sub == "INFO":
		var all []any
		for _, cmd := range c.namedBy(c.words[2:]) {
			all = append(all, infoOf(cmd))
		}
		c.write(all)
	case sub == "DOCS":
		var all pairs
		for _, cmd := range c.namedBy(c.words[2:]) {
			if cmd != nil {
				all = append(all, strings.ToLower(cmd.Name), docsOf(cmd))
			}
		}
		c.write(all)
	case sub == "GETKEYS" && len(c.words) > 2:
		c.getKeys()
	case sub == "LIST" && len(c.words) == 2:
		var all []any
		for _, cmd := range c.host.Commands() {
			all = append(all, strings.ToLower(cmd.Name))
		}
		c.write(all)
	default:
		c.fail("ERR throttle-dev knows COMMAND, COMMAND COUNT, INFO, DOCS, GETKEYS and LIST")
	}
}

// namedBy are the commands of the module with these names, nil for another; all of them without names.
func (c *call) namedBy(names [][]byte) []*command.Command {
	if len(names) == 0 {
		return c.host.Commands()
	}
	var all []*command.Command
	for _, name := range names {
		all = append(all, c.host.Named(name))
	}
	return all
}

// everyCommand is the reply to COMMAND: what miniredis says of its own, and the module's.
func (c *call) everyCommand() string {
	_, theirs, _ := strings.Cut(c.ask("COMMAND"), "\r\n")
	var ours bytes.Buffer
	sub := &call{peer: dev.NewPeer(bufio.NewWriter(&ours))}
	sub.peer.Resp3 = c.peer.Resp3
	for _, cmd := range c.host.Commands() {
		sub.write(infoOf(cmd))
	}
	sub.peer.Flush()
	return "*" + strconv.Itoa(c.foreignCount()+len(c.host.Commands())) + "\r\n" + theirs + ours.String()
}

func (c *call) foreignCount() int {
	head, _, _ := strings.Cut(c.ask("COMMAND"), "\r\n")
	n, _ := strconv.Atoi(strings.TrimPrefix(head, "*"))
	return n
}

func infoOf(cmd *command.Command) any {
	if cmd == nil {
		return nil
	}
	all := flags{}
	for _, flag := range strings.Fields(cmd.Flags) {
		all = append(all, status(strings.ReplaceAll(flag, "deny-oom", "denyoom")))
	}
	all = append(all, "module")
	if cmd.Keys == command.CountedKeys {
		all = append(all, "movablekeys")
	}
	key := 0
	if cmd.Keys == command.OneKey {
		key = 1
	}
	var categories flags
	for _, name := range strings.Fields(cmd.OwnCategories()) {
		categories = append(categories, status("@"+name))
	}
	var tips []any
	for _, tip := range strings.Fields(cmd.Tips) {
		tips = append(tips, tip)
	}
	return []any{strings.ToLower(cmd.Name), cmd.Arity(), all, key, key, key, categories, tips, keySpecs(cmd), []any{}}
}

func keySpecs(cmd *command.Command) []any {
	use := flags{"RW", "access", "update"}
	if cmd.ReadOnly() {
		use = flags{"RO", "access"}
	}
	find := pairs{"type", "range", "spec", pairs{"lastkey", 0, "keystep", 1, "limit", 0}}
	switch cmd.Keys {
	case command.NoKeys:
		return nil
	case command.CountedKeys:
		find = pairs{"type", "keynum", "spec", pairs{"keynumidx", 0, "firstkey", 1, "keystep", 1}}
	}
	return []any{pairs{"flags", use, "begin_search", pairs{"type", "index", "spec", pairs{"index", 1}}, "find_keys", find}}
}

func docsOf(cmd *command.Command) pairs {
	docs := pairs{"summary", cmd.Summary, "since", cmd.Since, "group", "module", "complexity", cmd.Complexity, "module", "throttle"}
	if len(cmd.History) > 0 {
		var history set
		for _, change := range cmd.History {
			history = append(history, []any{change.Since, change.Changes})
		}
		docs = append(docs, "history", history)
	}
	if len(cmd.Args) > 0 {
		docs = append(docs, "arguments", argumentsOf(cmd.Args))
	}
	return docs
}

var argumentTypes = map[words.ArgType]string{
	words.ArgKey: "key", words.ArgString: "string", words.ArgInteger: "integer",
	words.ArgToken: "pure-token", words.ArgOneOf: "oneof", words.ArgBlock: "block",
}

func argumentsOf(args []words.Arg) (all []any) {
	for _, arg := range args {
		one := pairs{"name", arg.Name, "type", argumentTypes[arg.Type]}
		if len(arg.Args) == 0 {
			one = append(one, "display_text", arg.Name)
		}
		if arg.Type == words.ArgKey {
			one = append(one, "key_spec_index", 0)
		}
		if arg.Token != "" {
			one = append(one, "token", arg.Token)
		}
		var how flags
		if arg.Optional {
			how = append(how, "optional")
		}
		if arg.Multiple {
			how = append(how, "multiple")
		}
		if len(how) > 0 {
			one = append(one, "flags", how)
		}
		if len(arg.Args) > 0 {
			one = append(one, "arguments", argumentsOf(arg.Args))
		}
		all = append(all, one)
	}
	return all
}

// getKeys answers for the commands of the module. Of the others clients know it by COMMAND.
func (c *call) getKeys() {
	cmd := c.host.Named(c.words[2])
	if cmd == nil {
		c.fail("ERR throttle-dev knows COMMAND GETKEYS of the CL.* commands only")
		return
	}
	var keys []any
	switch args := c.words[3:]; {
	case cmd.Keys == command.OneKey && len(args) > 0:
		keys = []any{string(args[0])}
	case cmd.Keys == command.CountedKeys && len(args) > 0:
		n, err := strconv.Atoi(string(args[0]))
		for i := 1; err == nil && n <= command.MaxKeys && i <= n && n < len(args); i++ {
			keys = append(keys, string(args[i]))
		}
	}
	if keys == nil {
		c.fail("ERR Invalid arguments specified for command")
		return
	}
	c.write(keys)
}
