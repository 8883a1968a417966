// Package cli stands in for github.com/urfave/cli, a parser of command lines that go-rm imports for a function which
// this project never calls. The original and its 21 dependencies would be a fifth of throttle.so. It has the names that
// go-rm mentions, so that go-rm compiles.
package cli

// App has the fields that go-rm sets.
type App struct {
	Name, Email, Author, Copyright, Version string

	Action   any
	Commands []Command
}

// Command has the fields that go-rm sets.
type Command struct {
	Name   string
	Action any
}

// Context is only named.
type Context struct{}

// NewApp returns an App that does nothing.
func NewApp() *App { return &App{} }

// Run panics: a module is loaded by a server and has no command line.
func (*App) Run([]string) error { panic("throttle.so has no command line") }

// RunAndExitOnError panics as Run does.
func (*App) RunAndExitOnError() { panic("throttle.so has no command line") }
