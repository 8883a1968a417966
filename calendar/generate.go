//go:build ignore

// Copies the time zones that come with Go to zones.zip, compressed, and their version to its
// comment: go generate ./calendar, with a Go that has the version wanted.
package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	check(err)
	folder := filepath.Join(strings.TrimSpace(string(root)), "lib", "time")
	script, err := os.ReadFile(filepath.Join(folder, "update.bash"))
	check(err)
	version := regexp.MustCompile(`(?m)^DATA=(\w+)$`).FindSubmatch(script)
	if version == nil {
		log.Fatal("lib/time/update.bash does not say DATA=version")
	}

	var copied bytes.Buffer
	to := zip.NewWriter(&copied)
	to.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	check(to.SetComment(string(version[1])))
	from, err := zip.OpenReader(filepath.Join(folder, "zoneinfo.zip"))
	check(err)
	for _, f := range from.File {
		if f.Name == "Factory" || f.FileInfo().IsDir() { // "local time zone must be set"
			continue
		}
		zone, err := f.Open()
		check(err)
		w, err := to.Create(f.Name)
		check(err)
		_, err = io.Copy(w, zone)
		check(err)
	}
	check(to.Close())
	check(os.WriteFile("zones.zip", copied.Bytes(), 0o644))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
