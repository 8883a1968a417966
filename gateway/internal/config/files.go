package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Files is what a configuration is made of.
type Files struct {
	// Version is a hash of the files, or of what keeps them from being read.
	Version string

	list []file
	errs []error

	seen   int // files and folders
	isOnce bool
}

// file is a text, or a document that came in another form.
type file struct {
	name, text string
	document   *yaml.Node
	doubts     []string
}

// most is how many files and folders are read. Folders that lead to each other by links could go on for ever.
const most = 10_000

// Read reads files, and the files in folders and below. Files and folders whose name begins with a dot are left out,
// such as those that Kubernetes keeps beside the files of a ConfigMap. Symbolic links are followed. What cannot be read
// is told by Parse.
func Read(paths ...string) Files { return read(false, paths) }

// ReadOnce is Read for files that are not read again. So each path may be that of a pipe, too.
func ReadOnce(paths ...string) Files { return read(true, paths) }

func read(isOnce bool, paths []string) Files {
	f := Files{isOnce: isOnce}
	sum := sha256.New()
	for _, path := range paths {
		if folder, ok := strings.CutSuffix(path, siblings); ok {
			f.readWithSiblings(folder)
			continue
		}
		f.read(path)
	}
	if f.seen > most {
		f.errs = []error{fmt.Errorf("there are more than %d files and folders in %s", most, strings.Join(paths, ", "))}
	} else if len(f.errs) == 0 && len(f.list) == 0 {
		f.errs = []error{fmt.Errorf("there is no file in %s", strings.Join(paths, ", "))}
	}
	for _, one := range f.list {
		fmt.Fprintf(sum, "%d %d\n%s%s", len(one.name), len(one.text), one.name, one.text)
	}
	for _, err := range f.errs {
		fmt.Fprintln(sum, err)
	}
	f.Version = hex.EncodeToString(sum.Sum(nil)[:6])
	return f
}

// Parse makes a configuration of files. All mistakes are reported at once. With merge, several files can be about one
// domain.
func (f Files) Parse(merge bool) (*Config, error) {
	c := &Config{Domains: map[string]*Domain{}, Version: f.Version}
	errs := slices.Clone(f.errs)
	for _, one := range f.list {
		r := &reader{file: one.name, doubts: slices.Clone(one.doubts)}
		document := one.document
		if document == nil {
			document = r.parse(one.text)
		} else {
			r.built(document)
		}
		if len(r.errs) == 0 {
			c.domain(r, document, merge)
		}
		errs = append(errs, r.errs...)
		c.Doubts = append(c.Doubts, r.doubts...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Domains)) {
		switch d := c.Domains[name]; {
		case len(d.root.children) == 0:
			c.Doubts = append(c.Doubts, fmt.Sprintf("the domain %q has no descriptors, so it limits nothing", name))
		case !d.root.hasRule():
			c.Doubts = append(c.Doubts, fmt.Sprintf("the domain %q limits nothing: none of its descriptors has limits or rate_limit", name))
		case d.Routes != nil && len(d.Routes.all) == 0:
			c.Doubts = append(c.Doubts, fmt.Sprintf("the domain %q has an empty list of routes, so /check and /forward limit nothing", name))
		}
	}
	for _, d := range c.Domains { // when all files have been read, which may be about one domain
		if d.Routes != nil && len(errs) == 0 {
			doubts, err := d.Routes.finish(d.root)
			c.Doubts = append(c.Doubts, doubts...)
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

// siblings ends a path that stands for a folder and what is beside it.
const siblings = "{,.*}"

// WithSiblings is a path for Read: the folder, and beside it what has its name with a dot and more, as upstream reads
// below RUNTIME_ROOT.
func WithSiblings(folder string) string { return folder + siblings }

func (f *Files) readWithSiblings(folder string) {
	parent, name := filepath.Split(folder)
	entries, err := os.ReadDir(filepath.Clean(parent))
	if err != nil {
		f.errs = append(f.errs, err)
		return
	}
	found := false
	for _, entry := range entries {
		if entry.Name() == name || strings.HasPrefix(entry.Name(), name+".") {
			found = true
			f.read(filepath.Join(parent, entry.Name()))
		}
	}
	if !found {
		f.errs = append(f.errs, fmt.Errorf("there is neither the folder %s nor a file %s.NAME.yaml beside it", folder, folder))
	}
}

// read adds the file at path, or those in the folder at path, in the order of their names. The folders above are those
// that it came by.
func (f *Files) read(path string, above ...fs.FileInfo) {
	if f.seen++; f.seen > most {
		return
	}
	info, err := os.Stat(path)
	isAbove := func(folder fs.FileInfo) bool { return os.SameFile(info, folder) }
	switch {
	case err != nil:
		if _, gone := os.Lstat(path); len(above) > 0 && errors.Is(gone, fs.ErrNotExist) {
			err = nil // since the folder was listed
		}
	case info.Mode().IsRegular(), f.isOnce && len(above) == 0 && !info.IsDir():
		var text []byte
		if text, err = os.ReadFile(path); err == nil {
			f.list = append(f.list, file{name: path, text: string(text)})
		}
	case !info.IsDir():
		err = fmt.Errorf("%s is no file and no folder", path) // reading a pipe would wait for a writer
	case slices.ContainsFunc(above, isAbove):
		err = fmt.Errorf("%s leads back to a folder that it is in", path)
	default:
		err = f.readFolder(path, append(slices.Clip(above), info))
	}
	if err != nil {
		f.errs = append(f.errs, err)
	}
}

func (f *Files) readFolder(path string, above []fs.FileInfo) error {
	entries, err := os.ReadDir(path)
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") {
			f.read(filepath.Join(path, entry.Name()), above...)
		}
	}
	return err
}
