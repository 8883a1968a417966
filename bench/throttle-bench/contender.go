package main

import (
	"bytes"
	"cmp"
	_ "embed"
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
	Samples map[metric][]float64 `json:"samples" yaml:"-"` // one a round

	Kind   string   `json:"-"` // of kinds
	Host   string   `json:"-"` // the server it is measured on, a path of a module or one of the hosts below
	Script string   `json:"-"` // the file in recipes/ that {sha} stands for
	Setup  []string `json:"-"` // called for every key before the calls that are measured; by default Call, once
	KeysOf string   `json:"-"` // the contender whose keys it uses, in place of its own
	// Keeps are the calls whose state is weighed in bytes per key. Their limit is 1000 per
	// day: what they leave must outlast the weighing.
	Keeps []string `json:"-"`
}

// kind is what a contender promises of each call.
type kind struct {
	reply  string // what the reply is; of an array, its first element or what follows "limited"
	writes effect
	floor  string // the contender that does the least a module can do for such a call
}

// effect is what a call changes.
type effect int

const (
	writesSometimes effect = iota // not checked
	writesAlways
	writesNever
)

// kinds of calls. The others' are verified by their replies alone.
var kinds = map[string]kind{
	"pong":           {"PONG", writesNever, ""},
	"value":          {"1700000000000000000", writesNever, ""},
	"ok":             {"OK", writesAlways, ""},
	"allowed":        {"0", writesAlways, "floor allowed"},
	"denied":         {"1", writesNever, "floor denied"},
	"peeked":         {"0", writesNever, "floor denied"},
	"allowed fields": {"0", writesAlways, "floor allowed, fields"},
	"denied fields":  {"1", writesNever, "floor denied, fields"},
	"peeked fields":  {"0", writesNever, "floor denied, fields"},
	"other allowed":  {"0", writesSometimes, ""},
	"other denied":   {"1", writesSometimes, ""},
}

// The servers that contenders are measured on, beside those called by the path of their module.
const (
	hostMain  = "" // with the module as it comes, and the floor
	hostPlain = "without module"
	hostTop   = "CL.TOP on"
)

// Groups that tables and charts treat in a way of their own.
const (
	groupBaseline = "baseline"
	groupFloor    = "floor"
	groupThrottle = "CL.THROTTLE"
	groupLimit    = "CL.LIMIT"
	groupLua      = "lua"
	groupPeer     = "peer"
	groupBuild    = "build"
)

// baseline is the contender that the others' figures are divided by.
const baseline = "SET PX"

//go:embed contenders.yaml
var contendersSource []byte

// contenders reads everything that is measured.
func contenders() (list []contender) {
	defer must.Name("contenders.yaml")
	var groups []struct {
		Group      string
		Contenders []contender
	}
	decoder := yaml.NewDecoder(bytes.NewReader(contendersSource))
	decoder.KnownFields(true)
	must.Do(decoder.Decode(&groups))
	for _, g := range groups {
		for _, c := range g.Contenders {
			c.Group = g.Group
			if g.Group != groupFloor {
				c.Beside = cmp.Or(c.Beside, kinds[c.Kind].floor)
			}
			list = append(list, c)
		}
	}
	return list
}

// command is the name the server counts the call under.
func (c contender) command() string {
	name, _, _ := strings.Cut(c.Call, " ")
	return name
}
