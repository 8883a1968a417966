package command

// syntaxError is an error of words: the word that it points at, if any, and what would be right.
type syntaxError struct {
	points bool
	name   string // the word, in capitals; or else
	word   []byte // as it was given
	right  [8]string
	parts  int    // of right
	number []byte // what needs a unit, in place of right
}

// shown is how much of a word an error shows, in bytes.
const shown = 40

func (e *syntaxError) add(right ...string) { e.parts += copy(e.right[e.parts:], right) }

// near returns an error that points at a word.
func (p *parser) near(word []byte, right ...string) *syntaxError {
	p.err = syntaxError{points: true, word: word}
	p.err.add(right...)
	return &p.err
}

// nearName returns an error that points at a word of the vocabulary, wherever it stands.
func (p *parser) nearName(name string, right ...string) *syntaxError {
	p.err = syntaxError{points: true, name: name}
	p.err.add(right...)
	return &p.err
}

// without returns an error that points at no word.
func (p *parser) without(right ...string) *syntaxError {
	p.err = syntaxError{}
	p.err.add(right...)
	return &p.err
}

func (e *syntaxError) Error() string { return string(e.appendTo(nil)) }

// appendTo appends the error's text. Of a long word it shows the beginning.
func (e *syntaxError) appendTo(text []byte) []byte {
	text = append(text, "ERR syntax error"...)
	if e.points {
		text = append(text, " near '"...)
		text = append(text, e.name...)
		text = append(text, e.word[:min(len(e.word), shown)]...)
		if len(e.word) > shown {
			text = append(text, "..."...)
		}
		text = append(text, '\'')
	}
	text = append(text, ": "...)
	if e.number != nil {
		return appendNoUnit(text, e.number)
	}
	for _, part := range e.right[:e.parts] {
		text = append(text, part...)
	}
	return text
}

// refuse makes the call an error and undoes what it was going to write.
func (c *Call) refuse(err *syntaxError) { c.fail(err.appendTo(c.error[:0])) }
