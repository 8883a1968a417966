package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"redis-throttle/bench/throttle-bench/internal/result"
)

// publish saves a run as NAME.json in the results' folder and renders it.
func publish(o options, name string, f result.File) error {
	path := filepath.Join(o.out, name+".json")
	if err := f.Write(path); err != nil {
		return err
	}
	return render(o.stdout, path, f)
}

func renderFile(o options, path string) error {
	f, err := result.Read(path)
	if err != nil {
		return err
	}
	return render(o.stdout, path, f)
}

// render prints a run's tables, and leaves them as Markdown beside its file, and its
// charts.
func render(stdout io.Writer, path string, f result.File) error {
	var tables []table.Writer
	var draw func(stem string, f result.File) ([]string, error)
	switch {
	case f.Kind == result.KindBench:
		for _, s := range benchSections() {
			tables = append(tables, sectionTable(s, f.Contenders))
		}
		draw = drawBench
	case f.Kind == result.KindCurve && f.Curve != nil:
		tables = append(tables, curveTable(*f.Curve))
		draw = drawCurve
	case f.Kind == result.KindWakeups && f.Wakeups != nil:
		tables = wakeupTables(*f.Wakeups)
		draw = func(string, result.File) ([]string, error) { return nil, nil }
	default:
		return fmt.Errorf("%s holds no results of this program", path)
	}
	writeTables(stdout, f, tables, false)

	stem := strings.TrimSuffix(path, ".json")
	var markdown bytes.Buffer
	writeTables(&markdown, f, tables, true)
	if err := os.WriteFile(stem+".md", markdown.Bytes(), 0o644); err != nil {
		return err
	}
	charts, err := draw(stem, f)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "\n%s\n", strings.Join(append([]string{path, stem + ".md"}, charts...), "\n"))
	return nil
}
