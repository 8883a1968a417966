package words

import "strings"

// What tests of this folder in another package see.
var Forms = forms

// CommandsOfRows returns the commands that the vocabulary names.
func CommandsOfRows() (names []string) {
	for i := range vocabulary {
		names = append(names, strings.Fields(vocabulary[i].of)...)
	}
	return names
}
