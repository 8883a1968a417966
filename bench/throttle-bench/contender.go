package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"redis-throttle/bench/internal/must"
)

// contender is one way to answer a call that is measured against the others, and what was
// measured of it.
//
// Its calls are templates, words separated by spaces, in which
//
//	{key}   is a key of the contender's own, drawn at random for each call
//	{id}    is another random number
//	{mix}   is a digit from 0 to 7, always the same for a key; calls take turns
//	{sha}   is the SHA1 of Script, loaded
//	{call}  is Call
type contender struct {
	Name    string               `json:"name"`
	Group   string               `json:"group"`
	Call    string               `json:"command"`          // what is measured; skipped where the host does not have the command
	Beside  string               `json:"beside,omitempty"` // the contender to compare it with; by default the floor of its kind
	Also    []string             `json:"also,omitempty"`   // calls of the same command that are sent with each, and measured as part of it
	Before  []string             `json:"before,omitempty"` // calls of other commands that are sent before and after each, so that
	After   []string             `json:"after,omitempty"`  // its key stays as it was: execution times are without them, the rest with them
	Keys    int                  `json:"keys,omitempty"`   // of so many keys at most, where they are large
	Samples map[metric][]float64 `json:"samples" yaml:"-"` // one a round

	Program string   `json:"-" yaml:"-"` // of its server, where that is another than the others'
	Kind    string   `json:"-"`          // of kinds
	Host    string   `json:"-"`          // the server it is measured on, a path of a module or one of the hosts below
	Script  string   `json:"-"`          // the file in recipes/ that {sha} stands for, or libraryAsScript
	Setup   []string `json:"-"`          // called for every key before the calls that are measured; by default Call, once
	Fill    int      `json:"-"`          // how often, by default once
	KeysOf  string   `json:"-"`          // the contender whose keys it uses, in place of its own
	Counted bool     `json:"-"`          // it takes part in a count only
	Keeps   []string `json:"-"`          // calls whose state is weighed; their limit is 1000 per day, to outlast the weighing
}

// kind is what a contender promises of each call.
type kind struct {
	Reply  string
	Writes string // "always", "never", or unknown
	Floor  string
}

// The servers that contenders are measured on, beside those called by the path of their module.
const (
	hostMain  = "" // with the module as it comes, and no other: beside another one it does more
	hostPlain = "without module"
	hostTop   = "CL.TOP on"
	hostOther = "another module" // with both, the module and the floor
	hostFloor = "floor"
	hostGo    = "floor in Go" // built so that each call crosses into Go

	hostFunctions = "functions" // with the function library, and without the module
)

// libraryAsScript is the Script that is the function library.
const libraryAsScript = "throttle.lua"

// Groups that tables and charts treat in a way of their own.
const (
	groupBaseline = "baseline"
	groupFloor    = "floor"
	groupThrottle = "CL.THROTTLE"
	groupLua      = "lua"
	groupFunction = "functions"
	groupPeer     = "peer"
	groupBuild    = "build"
	groupServer   = "server" // on further servers
)

// baseline is the contender that the others' figures are divided by.
const baseline = "SET PX"

//go:embed contenders.yaml
var contendersSource []byte

// Everything that is measured, and of which kinds it is.
var kinds, contenders = readContenders()

func readContenders() (kinds map[string]kind, list []contender) {
	file := decode[struct {
		Kinds      map[string]kind
		Others     []string // for aliases only
		Contenders []struct {
			Group      string
			Contenders []contender
		}
	}](contendersSource)
	for _, g := range file.Contenders {
		for _, c := range g.Contenders {
			c.Group = g.Group
			if g.Group != groupFloor {
				c.Beside = cmp.Or(c.Beside, file.Kinds[c.Kind].Floor)
			}
			list = append(list, c)
		}
	}
	return file.Kinds, list
}

// decode reads YAML in which all fields are known.
func decode[T any](source []byte) (value T) {
	decoder := yaml.NewDecoder(bytes.NewReader(source))
	decoder.KnownFields(true)
	must.Do(decoder.Decode(&value))
	return value
}

// keys lists the keys that the contender uses in a run.
func (c contender) keys(ofRun int) int {
	if c.Keys > 0 {
		return min(c.Keys, ofRun)
	}
	return ofRun
}

// server is what tells its server from others.
func (c contender) server() string { return c.Program + c.Host }

// isBuild says whether it is another build's.
func (c contender) isBuild() bool { return c.Group == groupBuild }

// sequence is what is sent for each call that is measured.
func (c contender) sequence() []string {
	return slices.Concat(c.Before, []string{"{call}"}, c.Also, c.After)
}

// replies are what is wanted of that: nothing of calls before and after.
func (c contender) replies() []string {
	measured := slices.Repeat([]string{kinds[c.Kind].Reply}, 1+len(c.Also))
	return slices.Concat(make([]string, len(c.Before)), measured, make([]string, len(c.After)))
}

// command is the name the server counts the call under.
func (c contender) command() string {
	name, _, _ := strings.Cut(c.Call, " ")
	return name
}
