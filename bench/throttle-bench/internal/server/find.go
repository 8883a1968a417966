package server

import (
	"errors"
	"os/exec"
	"path/filepath"
)

// Find returns the path of the first program there is, given by path or by a name
// on PATH.
func Find(names ...string) (string, error) {
	var errs []error
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err == nil {
			return filepath.Abs(path)
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}
