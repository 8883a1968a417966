// Package functions is the limiter as a library of functions, for servers that load no module: the file throttle.lua,
// which docs/functions.md describes.
package functions

//go:generate go run ./tables

import (
	_ "embed"
	"strconv"
	"strings"
)

// Library is what FUNCTION LOAD takes.
//
//go:embed throttle.lua
var Library string

// Script is what SCRIPT LOAD and EVAL take: the library without its first line. The name of the function is the first
// argument.
func Script() string {
	_, script, _ := strings.Cut(Library, "\n")
	return script
}

// Version is what cl_version answers: major x 10000 + minor x 100 + patch.
func Version() int {
	const name = "\nlocal VERSION = "
	_, rest, _ := strings.Cut(Library, name)
	digits, _, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(digits)
	if err != nil {
		panic("functions: the library has no version")
	}
	return n
}
