package command

import (
	"redis-throttle/gcra"
	"redis-throttle/stack"
)

// Callers mostly repeat themselves: between two calls the key differs, the limits do
// not. Comparing their words with those of the call before takes a fraction of the
// time of reading them.

// maxWordsLen is how many bytes of words are kept in all; longer ones are read anew.
const maxWordsLen = 256

// lastWords are the words of the call before.
type lastWords struct {
	count int
	ends  [MaxArgs]int
	text  [maxWordsLen]byte
}

func (l *lastWords) are(words [][]byte) bool {
	if len(words) != l.count {
		return false
	}
	start := 0
	for i, word := range words {
		if string(word) != string(l.text[start:l.ends[i]]) {
			return false
		}
		start = l.ends[i]
	}
	return true
}

func (l *lastWords) note(words [][]byte) {
	l.count = 0 // for words that do not fit: no call has none
	end := 0
	for i, word := range words {
		if len(word) > maxWordsLen-end {
			return
		}
		end += copy(l.text[end:], word)
		l.ends[i] = end
	}
	l.count = len(words)
}

// lastLimit is what the words of CL.THROTTLE's limit were read as. The limit and its period
// are those of the call in hand once its words are read.
type lastLimit struct {
	words    lastWords
	limit    gcra.Limit
	periodNs int64
}

// lastRequest is what the words of a command of the CL.LIMIT family were read as,
// limits and options.
type lastRequest struct {
	words   lastWords
	allowed options
	request request
	limits  [stack.MaxLimits]stack.Limit
	count   int
}

func (l *lastRequest) note(words [][]byte, allowed options, r request, s *stack.Stack) {
	l.words.note(words)
	l.allowed, l.request = allowed, r
	l.count = len(s.Limits(l.limits[:0]))
}
