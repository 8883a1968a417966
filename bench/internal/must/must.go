// Package must is for programs in which an error ends all work, wherever it occurs: it
// travels as a panic, past the deferred calls that stop the servers, to the function that
// Catches it.
package must

import "fmt"

type failure struct{ error }

// Do fails with an error, where there is one.
func Do(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Get is a value that comes without an error.
func Get[T any](value T, err error) T {
	Do(err)
	return value
}

// Fail fails with a new error.
func Fail(format string, args ...any) { Do(fmt.Errorf(format, args...)) }

// Catch turns a failure below into the error of the function that defers it.
func Catch(err *error) { recovered(func(e error) { *err = e }, recover()) }

// Name puts what was done before the error of a failure in the function that defers it.
func Name(format string, args ...any) {
	recovered(func(err error) { Fail("%s: %w", fmt.Sprintf(format, args...), err) }, recover())
}

func recovered(handle func(error), value any) {
	if f, ok := value.(failure); ok {
		handle(f.error)
	} else if value != nil {
		panic(value)
	}
}
