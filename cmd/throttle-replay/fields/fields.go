// Package fields makes of the fields of a request what a limit asks for: the key of its client, whether it counts, and
// how many units it takes.
//
// Each of them is read from text once, then bound to the layout of each file.
package fields

import "redis-throttle/cmd/throttle-replay/logs"

// isMissing reports whether a log says that there is no value.
func isMissing(value []byte) bool { return len(value) == 0 || len(value) == 1 && value[0] == '-' }

// wants asks a layout for a field.
func wants(l logs.Layout, option, name string) (int, error) {
	at, err := l.Want(name)
	if err != nil {
		return 0, &mistake{option, err}
	}
	return at, nil
}

// mistake is an error that names the option it is about.
type mistake struct {
	option string
	err    error
}

func (m *mistake) Error() string { return m.option + ": " + m.err.Error() }
func (m *mistake) Unwrap() error { return m.err }
