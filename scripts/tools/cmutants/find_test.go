package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const source = `#include "_cgo_export.h"
#define BROKEN(x) ((x) < 1 && !(x))
enum { API_OK, API_ERR };
// a < b
static int f(int *p, int argc) {
  (void)argc;
  if (!p || *p <= 0 || BROKEN(*p)) return API_OK;
  const char *text = "a < b"; // a && b
  *p = -argc + (int)sizeof *text;
  for (int i = 0; i < argc; i++) f(p,
    i);
  return g(p);
}
`

func TestEachOperatorAndStatementIsChangedAndNothingElse(t *testing.T) {
	root := t.TempDir()
	check(os.MkdirAll(filepath.Join(root, "module"), 0o755))
	check(os.WriteFile(filepath.Join(root, "module", "x.c"), []byte(source), 0o644))
	all, err := findAll(root, filepath.Join(root, "out"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, m := range all {
		found = append(found, fmt.Sprintf("%d %s -> %s", m.line, m.name, m.text))
	}
	want := []string{
		"7 module/x.c | NEGATION_DROPPED | if («!»p || *p <= 0 || BROKEN(*p)) return API_OK; -> ",
		"7 module/x.c | INVERT_LOGICAL | if (!p «||» *p <= 0 || BROKEN(*p)) return API_OK; -> &&",
		"7 module/x.c | CONDITIONALS_BOUNDARY | if (!p || *p «<=» 0 || BROKEN(*p)) return API_OK; -> <",
		"7 module/x.c | CONDITIONALS_NEGATION | if (!p || *p «<=» 0 || BROKEN(*p)) return API_OK; -> >",
		"7 module/x.c | INVERT_LOGICAL | if (!p || *p <= 0 «||» BROKEN(*p)) return API_OK; -> &&",
		"7 module/x.c | RETURN_CONSTANT | if (!p || *p <= 0 || BROKEN(*p)) return «API_OK»; -> API_ERR",
		"9 module/x.c | STATEMENT_REMOVED | «*p = -argc + (int)sizeof *text;» -> (void)0;",
		"9 module/x.c | ARITHMETIC_BASE | *p = -argc «+» (int)sizeof *text; -> -",
		"10 module/x.c | CONDITIONALS_BOUNDARY | for (int i = 0; i «<» argc; i++) f(p, -> <=",
		"10 module/x.c | CONDITIONALS_NEGATION | for (int i = 0; i «<» argc; i++) f(p, -> >=",
		"10 module/x.c | INCREMENT_DECREMENT | for (int i = 0; i < argc; i«++») f(p, -> --",
		"10 module/x.c | STATEMENT_REMOVED | for (int i = 0; i < argc; i++) «f(p,» -> (void)0;",
	}
	if !slices.Equal(found, want) {
		t.Errorf("found\n%q\nwant\n%q", found, want)
	}
	if first, again := draw(all, 7, 5), draw(all, 7, 5); !slices.Equal(first, again) || slices.Equal(first, draw(all, 8, 5)) {
		t.Error("a seed is to choose the mutants")
	}
}
