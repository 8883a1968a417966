package module

/*
#include <stdlib.h>
#include "load.h"
*/
import "C"

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/command/words"
)

// register tells the server of every command.
func register(ctx *C.RedisModuleCtx) error {
	hasCategory := C.throttleMakeCategory(ctx)
	var m memory
	defer m.free()
	for _, cmd := range command.All {
		if !m.register(ctx, cmd, hasCategory) {
			return fmt.Errorf("another module has the command %s (redis-cell has cl.throttle). Remove the loadmodule line of that module",
				strings.ToLower(cmd.Name))
		}
	}
	return nil
}

// registerAliases tells the server of the other names that throttle.aliases asks for. A name that is taken is the
// server's or another module's, and may be so from the next upgrade on. So it keeps no server from starting.
func registerAliases(ctx *C.RedisModuleCtx) {
	hasCategory := C.throttleMakeCategory(ctx)
	var m memory
	defer m.free()
	for _, cmd := range aliases {
		if !m.register(ctx, cmd, hasCategory) {
			log(ctx, "warning", fmt.Sprintf("throttle.aliases: the server or another module has a command %s, which is called instead of the one of this module", cmd.Name))
		}
	}
}

func (m *memory) register(ctx *C.RedisModuleCtx, cmd *command.Command, hasCategory C.int) (isFree bool) {
	return C.throttleRegister(ctx, C.int(slices.Index(command.ByIndex, cmd)), m.command(cmd), hasCategory) == C.API_OK
}

// memory is what the server reads while a command is registered; it makes copies.
type memory []unsafe.Pointer

func (m *memory) free() {
	for _, p := range *m {
		C.free(p)
	}
}

// room returns zeroed memory for n values.
func room[T any](m *memory, n int) []T {
	var one T
	p := C.calloc(C.size_t(n), C.size_t(unsafe.Sizeof(one)))
	*m = append(*m, p)
	return unsafe.Slice((*T)(p), n)
}

// text returns a C string, or NULL for an empty one.
func (m *memory) text(s string) *C.char {
	if s == "" {
		return nil
	}
	p := C.CString(s)
	*m = append(*m, unsafe.Pointer(p))
	return p
}

func (m *memory) command(cmd *command.Command) *C.throttleCommand {
	c := &room[C.throttleCommand](m, 1)[0]
	c.name = m.text(strings.ToLower(cmd.Name))
	c.flags = m.text(cmd.ServerFlags())
	c.categories = m.text(cmd.Categories())
	c.ownCategories = m.text(cmd.OwnCategories())
	c.info = m.info(cmd)
	c.traits.countsAs = C.int32_t(slices.Index(command.ByIndex, cmp.Or(cmd.AliasOf, cmd)))
	copy(bytesOf(c.traits.counter[:len(c.traits.counter)-1]), cmd.Counter())
	c.traits.keys = C.int32_t(cmd.Keys)
	c.traits.readOnly = boolean(cmd.ReadOnly())
	c.traits.blocks = boolean(cmd.Blocks)
	c.traits.lines = boolean(cmd.Lines)
	c.traits.onSortedSet = boolean(cmd.OnSortedSet)
	c.traits.seesExpiry = boolean(cmd.SeesExpiry)
	c.traits.onlyNames = boolean(cmd.OnlyNames)
	c.traits.isPlain = boolean(cmd.Keys == command.OneKey && !cmd.Blocks && !cmd.Lines && !cmd.OnSortedSet && !cmd.SeesExpiry && !cmd.OnlyNames &&
		!cmd.RunsOverMaxmemory())
	c.traits.runsOverMaxmemory = boolean(cmd.RunsOverMaxmemory())
	c.traits.namesAt, c.traits.slotsAt = C.int32_t(cmd.NamesAt), C.int32_t(cmd.SlotsAt)
	c.traits.maxMembers = C.int32_t(cmd.MaxMembers)
	c.traits.fieldCount, c.traits.nestedAt = C.int32_t(len(cmd.Fields)), C.int32_t(cmd.NestedAt)
	for i, name := range cmd.Fields {
		c.traits.fields[i] = C.throttleView{bytes: fieldName(name), length: C.size_t(len(name))}
		c.traits.sentNames[i] = sentName(name)
	}
	return c
}

// fieldNames are C's for as long as the process lives: a reply may be written after MODULE
// UNLOAD.
var fieldNames = map[string]*C.char{}

func fieldName(name string) *C.char {
	if fieldNames[name] == nil {
		fieldNames[name] = C.CString(name)
	}
	return fieldNames[name]
}

// sentName is a name of a reply and the beginning of the integer behind it, as they are sent.
func sentName(name string) (sent C.throttleSentName) {
	text := fmt.Sprintf("$%d\r\n%s\r\n:", len(name), name)
	if len(text) > len(sent.text) {
		panic("module: the name of a field is too long: " + name)
	}
	sent.length = C.uint8_t(copy(bytesOf(sent.text[:]), text))
	return sent
}

// info is what COMMAND DOCS and COMMAND INFO say.
func (m *memory) info(cmd *command.Command) *C.commandInfo {
	version := &room[C.commandInfoVersion](m, 1)[0]
	version.version = C.INFO_VERSION
	version.sizeofHistory = C.sizeof_commandHistory
	version.sizeofKeySpec = C.sizeof_commandKeySpec
	version.sizeofArg = C.sizeof_commandArg
	info := &room[C.commandInfo](m, 1)[0]
	info.version = version
	info.summary = m.text(cmd.Summary)
	info.complexity = m.text(cmd.Complexity)
	info.since = m.text(cmd.Since)
	info.tips = m.text(cmd.Tips)
	info.arity = C.int(cmd.Arity())
	if len(cmd.History) > 0 {
		info.history = m.history(cmd.History)
	}
	if cmd.Keys != command.NoKeys {
		info.keySpecs = m.keySpec(cmd)
	}
	if len(cmd.Args) > 0 {
		info.args = m.args(cmd.Args)
	}
	return info
}

func (m *memory) history(changes []words.Change) *C.commandHistory {
	all := room[C.commandHistory](m, len(changes)+1) // the last one is all zeros
	for i, change := range changes {
		all[i].since, all[i].changes = m.text(change.Since), m.text(change.Changes)
	}
	return &all[0]
}

func (m *memory) keySpec(cmd *command.Command) *C.commandKeySpec {
	spec := &room[C.commandKeySpec](m, 2)[0] // the last one is all zeros
	spec.flags = C.KEY_RW | C.KEY_ACCESS | C.KEY_UPDATE
	if cmd.ReadOnly() {
		spec.flags = C.KEY_RO | C.KEY_ACCESS
	}
	C.throttleFindKeys(spec, boolean(cmd.Keys == command.CountedKeys))
	return spec
}

var argTypes = map[words.ArgType]C.int{
	words.ArgKey: C.ARG_KEY, words.ArgString: C.ARG_STRING, words.ArgInteger: C.ARG_INTEGER,
	words.ArgToken: C.ARG_PURE_TOKEN, words.ArgOneOf: C.ARG_ONEOF, words.ArgBlock: C.ARG_BLOCK,
}

func (m *memory) args(args []words.Arg) *C.commandArg {
	all := room[C.commandArg](m, len(args)+1) // the last one is all zeros
	for i, arg := range args {
		to := &all[i]
		to.name = m.text(arg.Name)
		to._type = argTypes[arg.Type]
		to.token = m.text(arg.Token)
		to.keySpecIndex = -1
		if arg.Type == words.ArgKey {
			to.keySpecIndex = 0
		}
		if arg.Optional {
			to.flags |= C.ARG_OPTIONAL
		}
		if arg.Multiple {
			to.flags |= C.ARG_MULTIPLE
		}
		if len(arg.Args) > 0 {
			to.subargs = m.args(arg.Args)
		}
	}
	return &all[0]
}
