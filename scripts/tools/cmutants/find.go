package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"modernc.org/cc/v4"

	"redis-throttle/scripts/tools/mutation"
)

// change is what becomes of an operator, and what kind of change that is.
type change struct{ kind, text string }

// What becomes of an operator between two operands, or of an assignment.
var operators = map[string][]change{
	"<":  {{"CONDITIONALS_BOUNDARY", "<="}, {"CONDITIONALS_NEGATION", ">="}},
	"<=": {{"CONDITIONALS_BOUNDARY", "<"}, {"CONDITIONALS_NEGATION", ">"}},
	">":  {{"CONDITIONALS_BOUNDARY", ">="}, {"CONDITIONALS_NEGATION", "<="}},
	">=": {{"CONDITIONALS_BOUNDARY", ">"}, {"CONDITIONALS_NEGATION", "<"}},
	"==": {{"CONDITIONALS_NEGATION", "!="}},
	"!=": {{"CONDITIONALS_NEGATION", "=="}},
	"+":  {{"ARITHMETIC_BASE", "-"}},
	"-":  {{"ARITHMETIC_BASE", "+"}},
	"*":  {{"ARITHMETIC_BASE", "/"}},
	"/":  {{"ARITHMETIC_BASE", "*"}},
	"%":  {{"ARITHMETIC_BASE", "*"}},
	"&&": {{"INVERT_LOGICAL", "||"}},
	"||": {{"INVERT_LOGICAL", "&&"}},
	"&":  {{"INVERT_BITWISE", "|"}},
	"|":  {{"INVERT_BITWISE", "&"}},
	"+=": {{"INVERT_ASSIGNMENTS", "-="}},
	"-=": {{"INVERT_ASSIGNMENTS", "+="}},
	"|=": {{"INVERT_ASSIGNMENTS", "&="}},
	"++": {{"INCREMENT_DECREMENT", "--"}},
	"--": {{"INCREMENT_DECREMENT", "++"}},
}

// What becomes of a constant that is returned.
var constants = map[string]string{"0": "1", "1": "0", "API_OK": "API_ERR", "API_ERR": "API_OK"}

type finder struct {
	path, file string
	source     string
	lines      mutation.Lines
	found      []mutation.Mutant
}

// find returns all mutants of the functions in a C file. What a macro expands to is left alone, because the text is
// elsewhere.
func find(config *cc.Config, root, file string) ([]mutation.Mutant, error) {
	f := &finder{path: filepath.Join(root, file), file: file}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return nil, err
	}
	f.source = string(text)
	f.lines = mutation.LinesOf(f.source)
	ast, err := cc.Parse(config, []cc.Source{
		{Name: "<predefined>", Value: config.Predefined}, {Name: "<builtin>", Value: cc.Builtin}, {Name: f.path, Value: text},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for unit := ast.TranslationUnit; unit != nil; unit = unit.TranslationUnit {
		if function := unit.ExternalDeclaration.FunctionDefinition; function != nil && function.Position().Filename == f.path {
			f.walk(reflect.ValueOf(function.CompoundStatement))
		}
	}
	slices.SortFunc(f.found, func(a, b mutation.Mutant) int {
		return cmp.Or(a.Start-b.Start, a.End-b.End, strings.Compare(a.Text, b.Text))
	})
	return f.found, nil
}

// walk visits a node and the exported fields that are nodes.
func (f *finder) walk(v reflect.Value) {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return
	}
	node, ok := v.Interface().(cc.Node)
	if !ok {
		return
	}
	f.visit(node)
	for _, field := range reflect.VisibleFields(v.Elem().Type()) {
		if field.IsExported() && len(field.Index) == 1 {
			f.walk(v.Elem().FieldByIndex(field.Index))
		}
	}
}

func (f *finder) visit(node cc.Node) {
	switch n := node.(type) {
	case *cc.RelationalExpression:
		f.operator(n.Token)
	case *cc.EqualityExpression:
		f.operator(n.Token)
	case *cc.AdditiveExpression:
		f.operator(n.Token)
	case *cc.MultiplicativeExpression:
		f.operator(n.Token)
	case *cc.LogicalAndExpression:
		f.operator(n.Token)
	case *cc.LogicalOrExpression:
		f.operator(n.Token)
	case *cc.AndExpression:
		f.operator(n.Token)
	case *cc.InclusiveOrExpression:
		f.operator(n.Token)
	case *cc.AssignmentExpression:
		f.operator(n.Token)
	case *cc.PostfixExpression:
		if n.Case == cc.PostfixExpressionInc || n.Case == cc.PostfixExpressionDec {
			f.operator(n.Token)
		}
	case *cc.UnaryExpression:
		switch n.Case {
		case cc.UnaryExpressionInc, cc.UnaryExpressionDec:
			f.operator(n.Token)
		case cc.UnaryExpressionNot:
			if at, ok := f.at(n.Token); ok {
				f.add("NEGATION_DROPPED", at, at+1, "")
			}
		}
	case *cc.ExpressionStatement:
		f.statement(n)
	case *cc.JumpStatement:
		if e, ok := n.ExpressionList.(*cc.PrimaryExpression); ok && n.Case == cc.JumpStatementReturn {
			at, ok := f.at(e.Token)
			if other := constants[e.Token.SrcStr()]; ok && other != "" {
				f.add("RETURN_CONSTANT", at, at+len(e.Token.SrcStr()), other)
			}
		}
	}
}

func (f *finder) operator(t cc.Token) {
	at, ok := f.at(t)
	for _, c := range operators[t.SrcStr()] {
		if ok {
			f.add(c.kind, at, at+len(t.SrcStr()), c.text)
		}
	}
}

// statement removes a call whose result is not used, or an assignment. It leaves a cast to void, which only says that
// something is unused.
func (f *finder) statement(n *cc.ExpressionStatement) {
	switch e := n.ExpressionList.(type) {
	case *cc.PostfixExpression, *cc.AssignmentExpression:
	case *cc.UnaryExpression:
		if e.Case != cc.UnaryExpressionInc && e.Case != cc.UnaryExpressionDec {
			return
		}
	default:
		return
	}
	position := n.ExpressionList.Position()
	end, ok := f.at(n.Token)
	if start := f.lines.Offset(position.Line, position.Column); ok && position.Filename == f.path && start < end {
		f.add("STATEMENT_REMOVED", start, end+1, "(void)0;")
	}
}

// at is where a token is written, unless that is in a macro.
func (f *finder) at(t cc.Token) (int, bool) {
	p := t.Position()
	if p.Filename != f.path || t.SrcStr() == "" {
		return 0, false
	}
	at := f.lines.Offset(p.Line, p.Column)
	return at, strings.HasPrefix(f.source[at:], t.SrcStr())
}

func (f *finder) add(kind string, start, end int, text string) {
	f.found = append(f.found, f.lines.Mutant(f.file, kind, start, end, text))
}
