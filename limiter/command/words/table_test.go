package words_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/command/words"
)

func TestTheGrammarAsPlainData(t *testing.T) {
	rows := map[string]words.Row{}
	for _, row := range words.Rows() {
		rows[row.Name] = row
	}
	for _, want := range []words.Row{
		{Name: "SHADOW", Since: words.V020},
		{Name: "COST", Value: "units", Right: "takes an integer from 0 to 9223372036854775807"},
		{Name: "GROUP", Since: words.V030, Value: "group", Right: "takes 1 to 128 bytes", IsName: true, With: "TIMEOUT"},
	} {
		assert.Equal(t, want, rows[want.Name])
	}
	assert.Equal(t, "ID", command.Release.Words().Repeated)
	assert.Empty(t, command.Renew.Words().Repeated)
}
