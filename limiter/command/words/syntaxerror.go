package words

// SyntaxError is an error of words: the word that it points at, if any, and what would be right.
type SyntaxError struct {
	points bool
	name   string // the word, in capitals; or else
	word   []byte // as it was given
	right  [8]string
	parts  int    // of right
	number []byte // what needs a unit, in place of right
}

const (
	// MaxShown is how much of a word an error shows, in bytes.
	MaxShown = 40
	// MaxErrorLen is the length in bytes of the longest error.
	MaxErrorLen = 255
)

func (e *SyntaxError) add(right ...string) { e.parts += copy(e.right[e.parts:], right) }

// Near returns an error that points at a word.
func (p *Parser) Near(word []byte, right ...string) *SyntaxError {
	p.err = SyntaxError{points: true, word: word}
	p.err.add(right...)
	return &p.err
}

// nearName returns an error that points at a word of the vocabulary, wherever it stands.
func (p *Parser) nearName(name string, right ...string) *SyntaxError {
	p.err = SyntaxError{points: true, name: name}
	p.err.add(right...)
	return &p.err
}

// without returns an error that points at no word.
func (p *Parser) without(right ...string) *SyntaxError {
	p.err = SyntaxError{}
	p.err.add(right...)
	return &p.err
}

func (e *SyntaxError) Error() string { return string(e.AppendTo(nil)) }

// AppendTo appends the error's text. Of a long word it shows the beginning.
func (e *SyntaxError) AppendTo(text []byte) []byte {
	text = append(text, "ERR syntax error"...)
	if e.points {
		text = append(text, " near '"...)
		text = append(text, e.name...)
		text = append(text, e.word[:min(len(e.word), MaxShown)]...)
		if len(e.word) > MaxShown {
			text = append(text, "..."...)
		}
		text = append(text, '\'')
	}
	text = append(text, ": "...)
	if e.number != nil {
		return AppendNoUnit(text, e.number)
	}
	for _, part := range e.right[:e.parts] {
		text = append(text, part...)
	}
	return text
}
