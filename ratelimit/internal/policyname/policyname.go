// Package policyname says what the names of policies are made of.
package policyname

// longest is how many bytes a name has at most.
const longest = 64

// Valid says whether text has 1 to 64 of A-Z a-z 0-9 . _ -.
func Valid(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return text != "" && len(text) <= longest
}
