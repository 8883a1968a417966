package main

import (
	"io"
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"redis-throttle/scripts/tools/mutation"
)

// change is what becomes of a token, and what kind of change that is.
type change struct{ kind, text string }

var tokens = map[string][]change{
	"<":     {{"CONDITIONALS_BOUNDARY", "<="}, {"CONDITIONALS_NEGATION", ">="}},
	"<=":    {{"CONDITIONALS_BOUNDARY", "<"}, {"CONDITIONALS_NEGATION", ">"}},
	">":     {{"CONDITIONALS_BOUNDARY", ">="}, {"CONDITIONALS_NEGATION", "<="}},
	">=":    {{"CONDITIONALS_BOUNDARY", ">"}, {"CONDITIONALS_NEGATION", "<"}},
	"==":    {{"CONDITIONALS_NEGATION", "~="}},
	"~=":    {{"CONDITIONALS_NEGATION", "=="}},
	"+":     {{"ARITHMETIC_BASE", "-"}},
	"*":     {{"ARITHMETIC_BASE", "/"}},
	"/":     {{"ARITHMETIC_BASE", "*"}},
	"%":     {{"ARITHMETIC_BASE", "*"}},
	"and":   {{"INVERT_LOGICAL", "or"}},
	"or":    {{"INVERT_LOGICAL", "and"}},
	"not":   {{"NEGATION_DROPPED", ""}},
	"true":  {{"CONSTANT", "false"}},
	"false": {{"CONSTANT", "true"}},
}

type finder struct {
	file   string
	source string
	lines  mutation.Lines
	tokens []ast.Token
	found  []mutation.Mutant
}

// find returns all mutants of a file of Lua. The lines that are generated into it are left alone.
func find(file, source string) ([]mutation.Mutant, error) {
	f := &finder{file: file, source: source, lines: mutation.LinesOf(source)}
	first := 1
	if strings.HasPrefix(source, "#") { // the line that names the library
		_, rest, _ := strings.Cut(source, "\n")
		source, first = rest, 2
	}
	scanner, lexer := parse.NewScanner(strings.NewReader(source), file), &parse.Lexer{}
	for {
		token, err := scanner.Scan(lexer)
		if err != nil && err != io.EOF {
			return nil, err
		}
		if token.Type == parse.EOF {
			break
		}
		lexer.PrevTokenType = token.Type
		token.Pos.Line += first - 1
		f.tokens = append(f.tokens, token)
	}
	generated := strings.Split(f.source, "\n")
	is, within := make([]bool, len(generated)+1), false
	for i, line := range generated {
		within = within && !strings.HasPrefix(line, "-- END GENERATED") || strings.HasPrefix(line, "-- BEGIN GENERATED")
		is[i+1] = within
	}
	for i, token := range f.tokens {
		if !is[token.Pos.Line] {
			f.visit(i, token)
		}
	}
	return f.found, nil
}

func (f *finder) visit(i int, t ast.Token) {
	at, text := f.at(i), t.Str
	switch {
	case t.Type == parse.TString:
		return
	case t.Type == parse.TNumber:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			f.add("CONSTANT", at, at+len(text), strconv.FormatInt(n+1, 10))
		}
	case text == "-" && f.endsOperand(i-1):
		f.add("ARITHMETIC_BASE", at, at+1, "+")
	case text == "-":
		f.add("NEGATION_DROPPED", at, at+1, "")
	case text == "if" || text == "elseif":
		f.condition(i)
	}
	for _, c := range tokens[text] {
		f.add(c.kind, at, at+len(text), c.text)
	}
	if f.beginsStatement(i) {
		f.add("STATEMENT_REMOVED", at, f.behind(f.end(i)-1), "")
	}
}

// condition turns a condition round that has no operator of its own to be changed.
func (f *finder) condition(i int) {
	then := i + 1
	for ; f.tokens[then].Str != "then"; then++ {
		if tokens[f.tokens[then].Str] != nil {
			return
		}
	}
	from, to := f.at(i+1), f.behind(then-1)
	f.add("CONDITIONALS_NEGATION", from, to, "not ("+f.source[from:to]+")")
}

// beginsStatement reports whether a token begins a call or an assignment, or is a break. An expression goes on in a new
// line only within brackets or around an operator.
func (f *finder) beginsStatement(i int) bool {
	if f.tokens[i].Str == "break" {
		return true
	}
	if f.tokens[i].Type != parse.TIdent || f.depth(i) > 0 {
		return false
	}
	switch f.tokens[i-1].Str {
	case "then", "else", "do", "repeat":
		return true
	case "local", "function", "for", "return", ",", "=", "and", "or", "not", "..", "+", "-", "*", "/", "(", "{", "goto":
		return false
	}
	return f.tokens[i-1].Pos.Line < f.tokens[i].Pos.Line || f.tokens[i-1].Str == ")" && f.isParameters(i-1)
}

// depth is in how many brackets a token is, within its function.
func (f *finder) depth(i int) (depth int) {
	for i--; i >= 0; i-- {
		switch f.tokens[i].Str {
		case ")", "}", "]":
			depth--
		case "(", "{", "[":
			depth++
		case "then", "do", "else", "repeat", "local", "function", "return", "end":
			if f.tokens[i].Type != parse.TString && depth >= 0 {
				return depth
			}
		}
	}
	return depth
}

// isParameters reports whether a bracket closes the parameters of a function.
func (f *finder) isParameters(i int) bool {
	for ; f.tokens[i].Str != "("; i-- {
	}
	for ; i > 0 && f.tokens[i].Str != "function"; i-- {
		if t := f.tokens[i]; t.Type != parse.TIdent && !strings.Contains("(.:", t.Str) {
			return false
		}
	}
	return true
}

// end is the token behind the statement that begins with a token.
func (f *finder) end(i int) int {
	depth := 0
	for begin := i; i < len(f.tokens); i++ {
		t := f.tokens[i]
		text := t.Str
		if t.Type == parse.TString {
			text = "a string"
		}
		if i > begin && depth == 0 {
			switch text {
			case "end", "else", "elseif", "until", "local", "if", "for", "while", "return", "break", "repeat", "do":
				return i
			}
			if t.Pos.Line > f.tokens[i-1].Pos.Line && f.endsOperand(i-1) && (t.Type == parse.TIdent || text == "function") {
				return i
			}
		}
		switch text {
		case "(", "{", "[", "function", "if", "do", "repeat":
			depth++
		case ")", "}", "]", "end", "until":
			depth--
		}
	}
	return i
}

// endsOperand reports whether an operand may end with a token, so that a "-" behind it takes one.
func (f *finder) endsOperand(i int) bool {
	switch t := f.tokens[i]; t.Type {
	case parse.TIdent, parse.TNumber, parse.TString, parse.TTrue, parse.TFalse, parse.TNil, parse.T3Comma, parse.TEnd:
		return true
	default:
		return strings.Contains(")]}", t.Str)
	}
}

func (f *finder) at(i int) int {
	p := f.tokens[i].Pos
	return f.lines.Offset(p.Line, p.Column)
}

// behind is where a token ends. That of a text has no quotes, and what its escapes stand for.
func (f *finder) behind(i int) int {
	at, t := f.at(i), f.tokens[i]
	if t.Type != parse.TString {
		return at + len(t.Str)
	}
	quote := f.source[at : at+1]
	if quote == "[" {
		quote = "]]"
	}
	return at + 1 + strings.Index(f.source[at+1:], quote) + len(quote)
}

func (f *finder) add(kind string, start, end int, text string) {
	f.found = append(f.found, f.lines.Mutant(f.file, kind, start, end, text))
}
