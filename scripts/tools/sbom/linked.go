package main

import (
	"cmp"
	"debug/buildinfo"
	"fmt"
	"slices"
	"strings"
)

// goStandardLibrary stands for the Go standard library and runtime, which are linked, too.
const goStandardLibrary = "std"

// linked is a module that is part of a binary. sum is go.sum's hash of its sources, empty
// for the standard library.
type linked struct{ path, version, sum, license string }

// binary is what the linker wrote into a file: the program and all that it is made of, by
// path.
type binary struct {
	module  string
	modules []linked
}

func readBinary(path string) (binary, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return binary{}, err
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	// The bridge is a Go module below the project's own, whose name its users know.
	b := binary{module: strings.TrimSuffix(info.Main.Path, "/module"), modules: []linked{{path: goStandardLibrary, version: goVersion}}}
	for _, dep := range info.Deps {
		if dep.Replace != nil && strings.HasPrefix(dep.Replace.Path, ".") {
			continue // a folder of the project
		}
		if dep.Replace != nil {
			return binary{}, fmt.Errorf("%s: %s is replaced, and a release is made of published modules only", path, dep.Path)
		}
		b.modules = append(b.modules, linked{path: dep.Path, version: dep.Version, sum: dep.Sum})
	}
	for i, m := range b.modules {
		license, known := licenses[m.path]
		if !known {
			return binary{}, fmt.Errorf("%s: nobody has looked at the license of %s yet; see tools/sbom/licenses.go", path, m.path)
		}
		b.modules[i].license = license
	}
	slices.SortFunc(b.modules, byPath)
	return b, nil
}

func byPath(a, b linked) int { return cmp.Compare(a.path, b.path) }
