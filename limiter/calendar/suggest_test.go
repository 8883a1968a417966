package calendar

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSuggestFindsTheZoneThatWasMeant(t *testing.T) {
	for name, want := range map[string]string{
		"europe/berlin":                  "Europe/Berlin",
		"EUROPE/BERLIN":                  "Europe/Berlin",
		"Europe/Berln":                   "Europe/Berlin",
		"Europe/Belrin":                  "Europe/Berlin",
		"Erope/Berlim":                   "Europe/Berlin",
		"Berlin":                         "Europe/Berlin",
		"berlni":                         "Europe/Berlin",
		"America/New York":               "America/New_York",
		"new york":                       "America/New_York",
		"NewYork":                        "America/New_York",
		"america/argentina/buenos_aires": "America/Argentina/Buenos_Aires",
		"Asia/Calcuta":                   "Asia/Calcutta",
		"Singapor":                       "Asia/Singapore",
		"/berlin":                        "Europe/Berlin",
		"utc":                            "UTC",
		"etc/utc":                        "Etc/UTC",
		"est5edt":                        "EST5EDT",

		// Nothing is near, or what is near means something else.
		"":                         "",
		"E":                        "",
		"EDT":                      "",
		"IST":                      "",
		"Europe/Atlantis":          "",
		"GMT+1":                    "",
		"UTC+1":                    "",
		"Etc/GMT+15":               "",
		"Local":                    "",
		"Factory":                  "",
		"../etc/passwd":            "",
		strings.Repeat("a", 65):    "",
		strings.Repeat("\xff", 64): "",
	} {
		assert.Equal(t, want, Suggest([]byte(name)), "%q", name)
	}
}

// Every name in another case leads back to a zone that differs in nothing else.
func TestSuggestFindsEveryNameInAnotherCase(t *testing.T) {
	entries := database().entries
	for i := range entries {
		name := entries[i].name
		for _, asked := range []string{strings.ToLower(name), strings.ToUpper(name)} {
			assert.True(t, strings.EqualFold(name, Suggest([]byte(asked))), "%s: %s", asked, Suggest([]byte(asked)))
		}
	}
}

func TestSuggestDoesNotAllocate(t *testing.T) {
	Suggest([]byte("x"))
	for _, name := range []string{"europe/berlin", "Europe/Berln", "America/Argentina/ComodRivadavia/Atlantis", "GMT+1"} {
		asked := []byte(name)
		assert.Zero(t, testing.AllocsPerRun(10, func() { Suggest(asked) }), name)
	}
}

// naiveTypos is the whole table, by the definition of the distance.
func naiveTypos(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	n, m, d := len(a)-1, len(b)-1, 1
	if sameLetter(a[n], b[m]) {
		d = 0
	}
	least := min(naiveTypos(a[:n], b[:m])+d, naiveTypos(a[:n], b)+1, naiveTypos(a, b[:m])+1)
	if n > 0 && m > 0 && sameLetter(a[n], b[m-1]) && sameLetter(a[n-1], b[m]) {
		least = min(least, naiveTypos(a[:n-1], b[:m-1])+1)
	}
	return least
}

func TestTyposAreCountedAsDefined(t *testing.T) {
	texts := []string{""}
	for i := 0; len(texts[i]) < 4; i++ {
		texts = append(texts, texts[i]+"a", texts[i]+"b", texts[i]+"B")
	}
	for _, a := range texts {
		for _, b := range texts {
			want := naiveTypos(a, b)
			for limit := 1; limit <= 4; limit++ {
				require.Equal(t, min(limit, want), typos([]byte(a), b, limit), "%q, %q, limit %d", a, b, limit)
			}
		}
	}
	text := rapid.StringOfN(rapid.RuneFrom([]rune("abAB_ ")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b, limit := text.Draw(t, "a"), text.Draw(t, "b"), rapid.IntRange(1, 4).Draw(t, "limit")
		assert.Equal(t, min(limit, naiveTypos(a, b)), typos([]byte(a), b, limit))
	})
}
