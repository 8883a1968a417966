package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Files is what a configuration is made of.
type Files struct {
	// Version is a hash of the files, or of what keeps them from being read.
	Version string

	list []file
	err  error
}

type file struct{ name, text string }

// Read reads files, and the files in folders and below. Files and folders whose name begins with a dot are left out, such as those
// that Kubernetes keeps beside the files of a ConfigMap. What cannot be read is told by Parse.
func Read(paths ...string) Files {
	var f Files
	sum := sha256.New()
	names, err := find(paths)
	errs := []error{err}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		f.list = append(f.list, file{name, string(text)})
		fmt.Fprintf(sum, "%d %d\n%s%s", len(name), len(text), name, text)
	}
	if f.err = errors.Join(errs...); f.err == nil && len(names) == 0 {
		f.err = fmt.Errorf("there is no file in %s", strings.Join(paths, ", "))
	}
	if f.err != nil {
		fmt.Fprint(sum, f.err)
	}
	f.Version = hex.EncodeToString(sum.Sum(nil)[:6])
	return f
}

// Parse makes a configuration of files. All mistakes are reported at once. With merge, several files can be about one domain.
func (f Files) Parse(merge bool) (*Config, error) {
	c := &Config{Domains: map[string]*Domain{}, Version: f.Version}
	errs := []error{f.err}
	for _, one := range f.list {
		r := &reader{file: one.name}
		c.domain(r, one.text, merge)
		errs = append(errs, r.errs...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

// find lists files in the order of their names.
func find(paths []string) (files []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		var below []string
		for _, entry := range entries {
			if !strings.HasPrefix(entry.Name(), ".") {
				below = append(below, filepath.Join(path, entry.Name()))
			}
		}
		more, err := find(below)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // one that is being replaced is looked at again
			return nil, err
		}
		files = append(files, more...)
	}
	return files, nil
}
