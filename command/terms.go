package command

import "redis-throttle/stack"

// The words that follow a limit and belong to it.

const (
	badTake       = "TAKE takes an integer from 0 to 9223372036854775807"
	badSpare      = "SPARE takes an integer from 0 to 9223372036854775807"
	misplacedTerm = "must follow the limit that it belongs to"

	allTerms      = "TAKE, SPARE, SHADOW, "
	termsOfRefund = "TAKE, SHADOW, "
	termsOfWait   = "TAKE, SPARE, "
)

// termOf is the option that word stands for when it belongs to a limit and is allowed, or 0.
func termOf(word []byte, allowed options) options {
	switch {
	case allowed&optionTake != 0 && isKeyword(word, "TAKE"):
		return optionTake
	case allowed&optionSpare != 0 && isKeyword(word, "SPARE"):
		return optionSpare
	case allowed&optionShadow != 0 && isKeyword(word, "SHADOW"):
		return optionShadow
	}
	return 0
}

// namesOfTerms begins a list of what may follow a limit.
func namesOfTerms(allowed options) string {
	switch {
	case allowed&optionSpare == 0:
		return termsOfRefund
	case allowed&optionShadow == 0:
		return termsOfWait
	}
	return allTerms
}

// parseTerms reads the words that come next as far as they belong to the limit before them, and
// adds them to what was seen.
func (c *Call) parseTerms(w *words, allowed options, seen *options) (terms stack.Terms, ok bool) {
	var given options
	for w.next < len(w.args) {
		word := w.args[w.next]
		term := termOf(word, allowed)
		if term == 0 {
			break
		}
		w.next++
		if given&term != 0 {
			c.failNear(word, givenTwice)
			return terms, false
		}
		given |= term
		ok = true
		switch term {
		case optionTake:
			terms.Take, ok = c.parseCount(word, w, badTake)
			terms.HasTake = true
		case optionSpare:
			terms.Spare, ok = c.parseCount(word, w, badSpare)
		case optionShadow:
			terms.Shadow = true
		}
		if !ok {
			return terms, false
		}
	}
	*seen |= given
	return terms, true
}
