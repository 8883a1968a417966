package main

import (
	"fmt"
	"slices"
	"testing"
)

const code = `#!lua name=x
-- BEGIN GENERATED: words
local V = 1 + 2
-- END GENERATED: words
local function f(a, b) a.n = -b end
local t = { x = 1e9, y = function() t = 'x < y' end }
while a do
  if a then break else g(a,
    b) end
  s = a - 2 ^ n
  h { a >= b and not c }
end
`

// Each place is changed once for each kind, and neither what is generated nor what is in a text.
func TestFindsOperatorsConstantsConditionsAndStatements(t *testing.T) {
	all, err := find("x.lua", code)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, m := range all {
		found = append(found, fmt.Sprintf("%d %s %q -> %q", m.Line, m.Kind, code[m.Start:m.End], m.Text))
	}
	want := []string{
		`5 STATEMENT_REMOVED "a.n = -b" -> ""`,
		`5 NEGATION_DROPPED "-" -> ""`,
		`6 STATEMENT_REMOVED "t = 'x < y'" -> ""`,
		`8 CONDITIONALS_NEGATION "a" -> "not (a)"`,
		`8 STATEMENT_REMOVED "break" -> ""`,
		`8 STATEMENT_REMOVED "g(a,\n    b)" -> ""`,
		`10 STATEMENT_REMOVED "s = a - 2 ^ n" -> ""`,
		`10 ARITHMETIC_BASE "-" -> "+"`,
		`10 CONSTANT "2" -> "3"`,
		`11 STATEMENT_REMOVED "h { a >= b and not c }" -> ""`,
		`11 CONDITIONALS_BOUNDARY ">=" -> ">"`,
		`11 CONDITIONALS_NEGATION ">=" -> "<"`,
		`11 INVERT_LOGICAL "and" -> "or"`,
		`11 NEGATION_DROPPED "not" -> ""`,
	}
	if !slices.Equal(found, want) {
		t.Errorf("found %q\nwant  %q", found, want)
	}
}
