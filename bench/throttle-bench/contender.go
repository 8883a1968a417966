package main

import (
	"fmt"
	"strings"
)

// Contender is one way to answer a call that is measured against the others.
//
// Its calls are templates, words separated by spaces, in which
//
//	{key}   is a key of the contender's own, drawn at random for each call
//	{id}    is another random number
//	{mix}   is a digit from 0 to 7, always the same for a key; calls take turns
//	{sha}   is the SHA1 of Script, loaded
//	{call}  in Setup, is Args
type Contender struct {
	Name  string
	Group string
	// Host is the server it is measured on: contenders on one host share a process.
	Host string
	// Args is the call that is measured. A contender whose command the host does not
	// have is skipped.
	Args string
	// Beside names the contender whose execution time this one's is set beside: the floor
	// for the same kind of call, or what differs in one respect.
	Beside string
	// Script is the file in recipes/ that {sha} stands for.
	Script string
	// Setup is called for every key before each slice; nil is Args, once.
	Setup []string
	// Lasting says that Setup outlives the run and is needed once only.
	Lasting bool
	// KeysOf names the contender whose keys this one shares, and does not set up.
	KeysOf string
	// Verify says whether a reply is what the contender's name promises.
	Verify func(reply any) error
	// Writes says what a call does to the data set, where that is known.
	Writes effect
	// Keeps are the calls whose state is weighed in bytes per key; nil is none. Their limit
	// is 1000 per day: what they leave must outlast the weighing.
	Keeps []string
}

// effect is what a call changes.
type effect int

const (
	writesSometimes effect = iota // not checked
	writesAlways
	writesNever
)

// setupCalls are the templates to run for every key.
func (c Contender) setupCalls() []string {
	if c.Setup == nil {
		return []string{c.Args}
	}
	calls := make([]string, len(c.Setup))
	for i, template := range c.Setup {
		calls[i] = strings.ReplaceAll(template, "{call}", c.Args)
	}
	return calls
}

// command is the name the server counts the call under.
func (c Contender) command() string {
	name, _, _ := strings.Cut(c.Args, " ")
	return name
}

// words fills a template in.
func words(template, sha, key, id, mix string) []string {
	fill := strings.NewReplacer("{sha}", sha, "{key}", key, "{id}", id, "{mix}", mix)
	fields := strings.Fields(template)
	for i, field := range fields {
		fields[i] = fill.Replace(field)
	}
	return fields
}

// limitedFlag finds the verdict in a limiter's reply: 0 allowed, 1 limited. It is the
// reply itself, an array's first element, or what follows the word "limited".
func limitedFlag(reply any) (int64, error) {
	value := reply
	if array, ok := reply.([]any); ok && len(array) > 0 {
		value = array[0]
		if value == "limited" && len(array) > 1 {
			value = array[1]
		}
	}
	flag, ok := value.(int64)
	if !ok || flag < 0 || flag > 1 {
		return 0, fmt.Errorf("%v is no verdict: it begins with neither 0 (allowed) nor 1 (limited)", reply)
	}
	return flag, nil
}

func isAllowed(reply any) error { return hasVerdict(reply, 0, "allowed") }
func isDenied(reply any) error  { return hasVerdict(reply, 1, "denied") }

func hasVerdict(reply any, want int64, name string) error {
	flag, err := limitedFlag(reply)
	if err == nil && flag != want {
		err = fmt.Errorf("%v is not %s", reply, name)
	}
	return err
}

// is verifies a reply that is always the same.
func is(want string) func(any) error {
	return func(reply any) error {
		if reply != want {
			return fmt.Errorf("%v is not %q", reply, want)
		}
		return nil
	}
}
