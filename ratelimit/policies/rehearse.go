package policies

import (
	"errors"
	"fmt"
	"strings"

	"redis-throttle/ratelimit/internal/about"
)

// Shadows says whether a limit of v is a rehearsal.
func (v Value) Shadows() bool {
	for i := range v.Limits {
		if about.Of(&v.Limits[i]).Shadow {
			return true
		}
	}
	return false
}

// Words are the limits of v as its text has them, one each, and what begins with BAN as the last.
func (v Value) Words() (all []string) {
	if v.None {
		return nil
	}
	limits, rest := splitLimits(strings.FieldsFunc(v.Text, isSpace))
	for _, words := range limits {
		all = append(all, strings.Join(words, " "))
	}
	if len(rest) > 0 {
		all = append(all, strings.Join(rest, " "))
	}
	return all
}

// Enforced is a value in which the shadows of v deny, in place of its other limits; "" if it has none.
func (v Value) Enforced() string {
	if !v.Shadows() {
		return ""
	}
	limits, rest := splitLimits(strings.FieldsFunc(v.Text, isSpace))
	var words []string
	for i := range limits {
		if about.Of(&v.Limits[i]).Shadow {
			words = append(words, enforced(limits[i])...)
		}
	}
	return strings.Join(append(words, rest...), " ")
}

// enforced are the words of a limit without SHADOW.
func enforced(words []string) (all []string) {
	for i, word := range words {
		if !strings.EqualFold(word, "SHADOW") || strings.EqualFold(words[i-1], "NAME") {
			all = append(all, word)
		}
	}
	return all
}

// Rehearsal is a value of a policy under which what counts now, as a value or "", goes on, and the limits of next are
// shadows: they count, and deny nobody. A shadow begins no ban, so that of now stays.
func Rehearsal(name, now, next string) (string, error) {
	value, err := ParseValue(name, next)
	switch {
	case err != nil:
		return "", err
	case value.None:
		return "", errors.New("NONE lets everything through: there is nothing to rehearse")
	}
	limits, _ := splitLimits(strings.FieldsFunc(next, isSpace))
	var words, ban []string
	if now != "" {
		before, err := ParseValue(name, now)
		if err != nil {
			return "", fmt.Errorf("what counts now: %w", err)
		}
		old, rest := splitLimits(strings.FieldsFunc(now, isSpace))
		for i := range before.Limits {
			if !about.Of(&before.Limits[i]).Shadow {
				words = append(words, old[i]...)
			}
		}
		ban = rest
	}
	for i := range limits {
		words = append(words, limits[i]...)
		if !about.Of(&value.Limits[i]).Shadow {
			words = append(words, "SHADOW")
		}
	}
	text := strings.Join(append(words, ban...), " ")
	_, err = ParseValue(name, text)
	return text, err
}
