// The grammar: what is answered to words that cannot be read. spec/errors.txt has an example of each.
package words

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// What errors say to be right.
const (
	badQuotaRate    = "RATE " + rightQuota
	badQuotaWindow  = "WINDOW " + rightQuota
	badQuotaFixed   = "FIXED " + rightCalendarQuota
	badCapacity     = "BURST " + rightCapacity
	badCost         = "COST " + rightUnits
	badMaxWait      = "MAXWAIT " + rightDuration
	badZone         = "TZ " + rightZone
	expectedALimit  = "expected RATE, WINDOW or FIXED"
	limitOptions    = "COST, UPTO, STRICT, FORCE, MAXWAIT, BAN, AFTER, COMPACT or EACH"
	expectedOfLimit = "expected RATE, WINDOW, FIXED, " + limitOptions
)

// Whatever command and word it follows, a length of time has a unit.
func TestABareNumberIsRefusedAfterEveryWordThatTakesATime(t *testing.T) {
	forty := "1." + strings.Repeat("0", 38)
	tried := map[string]int{}
	for _, form := range forms {
		s := Compile(form)
		base := "CL." + form.Command + " k "
		if form.Groups {
			base = "CL." + form.Command + " 1 k "
		}
		words := append(slices.Clone(s.options), s.kinds...)
		for _, kind := range s.kinds {
			words = append(words, kind.owned...)
		}
		for _, w := range words {
			if w.value == nil || !w.value.hasUnit {
				continue
			}
			line, count := base+w.name+" ", ""
			switch {
			case w.limit != nil:
				count = "7/"
			case find(rowOf(vocabulary, "FIXED").owned, []byte(w.name)) != nil:
				line = base + "FIXED 7/d " + w.name + " "
			case s.HasLimits():
				line = base + "RATE 5/s " + w.name + " "
			}
			if w.value == &denials {
				count = "7/"
			}
			for _, number := range []string{"500", "1.5", "100", "9", forty} {
				near := count + number
				if len(near) > 40 {
					near = near[:40] + "..."
				}
				requireError(t, read(line+count+number), "ERR syntax error near '"+near+"': "+number+" needs a unit, such as "+number+"ms or "+number+"s", line+count+number)
			}
			assert.Contains(t, read(line+count+forty+"0").error, ": a length of time needs a unit, such as 500ms or 30s")
			tried[w.name]++
		}
	}
	assert.Equal(t, map[string]int{"RATE": 6, "WINDOW": 6, "FIXED": 6, "OFFSET": 6, "MAXWAIT": 2, "BAN": 2, "AFTER": 2, "TIMEOUT": 2, "TTL": 2}, tried)
}

// Several words in one argument are what a client sends that does not split its command.
func TestWordsInOneArgumentHaveToBeSplit(t *testing.T) {
	for _, tt := range []struct {
		words, word string
	}{
		{"CL.LIMIT|k|RATE 5/s", "RATE 5/s"},
		{"CL.LIMIT|k|rate 5/s|COST|2", "rate 5/s"},
		{"CL.LIMIT|k|RATE|5/s BURST 10", "5/s BURST 10"},
		{"CL.LIMIT|k|RATE|5/s|COST 2", "COST 2"},
		{"CL.LIMIT|k|RATE|5/s|TAKE 2", "TAKE 2"},
		{"CL.LIMIT|k|RATE|5/s|COST|2 UPTO", "2 UPTO"},
		{"CL.LIMIT|k|FIXED|5/d|OFFSET|1h TZ UTC", "1h TZ UTC"},
		{"CL.WAIT|k|RATE|5/s|TIMEOUT 1s", "TIMEOUT 1s"},
		{"CL.LEASE|k|SLOTS 2|TTL|30s|ID|a", "SLOTS 2"},
		{"CL.LIMIT|k|RATE| 5/s", " 5/s"},
	} {
		c := readWords(bytes.Split([]byte(tt.words), []byte("|"))...)
		requireError(t, c, "ERR syntax error near '"+tt.word+"': "+severalInOne, tt.words)
	}
	c := readWords([]byte("CL.LIMIT"), []byte("k"), []byte("my RATE"))
	requireError(t, c, "ERR syntax error near 'my RATE': "+expectedALimit, "begins with no word of the command")
}

func TestWordsOfAnyBytes(t *testing.T) {
	long := strings.Repeat("x", 40)
	for _, tt := range []struct{ what, word, shown string }{
		{"empty", "", ""},
		{"a zero byte", "\x00", "\x00"},
		{"a line break", "RATE\r\n", "RATE\r\n"},
		{"bytes that are no UTF-8", "\xff\xfe", "\xff\xfe"},
		{"letters that fold to ASCII ones", "\u017fTRICT", "\u017fTRICT"},
		{"a format", "%s%n", "%s%n"},
		{"a control character beside an upper-case unit", "\x15/S", "\x15/S"},
		{"40 bytes", long, long},
		{"41 bytes", long + "y", long + "..."},
		{"1 MB", strings.Repeat("x", 1<<20), long + "..."},
		{"1 MB of digits", strings.Repeat("0", 1<<20), strings.Repeat("0", 40) + "..."},
		{"1 MB of units", strings.Repeat("s", 1<<20), strings.Repeat("s", 40) + "..."},
		{"1 MB with a limit at its end", strings.Repeat("0", 1<<20) + "5/s", strings.Repeat("0", 40) + "..."},
	} {
		for _, at := range []struct{ before, right string }{
			{"k", "expected RATE, WINDOW or FIXED"},
			{"k RATE", badQuotaRate},
			{"k WINDOW", badQuotaWindow},
			{"k FIXED", badQuotaFixed},
			{"k RATE 5/s", "expected BURST, TAKE, SPARE, SHADOW, RATE, WINDOW, FIXED, " + limitOptions},
			{"k WINDOW 5/s", "expected TAKE, SPARE, SHADOW, " + expectedOfLimit[len("expected "):]},
			{"k RATE 5/s BURST", badCapacity},
			{"k RATE 5/s COST", badCost},
			{"k RATE 5/s MAXWAIT", badMaxWait},
		} {
			if at.right == badMaxWait && tt.what == "1 MB of units" {
				continue // found below
			}
			args := append(split("CL.LIMIT "+at.before), []byte(tt.word))
			before := slices.Clone(args)
			requireError(t, readWords(args...), "ERR syntax error near '"+tt.shown+"': "+at.right, tt.what+" after "+at.before)
			assert.True(t, slices.EqualFunc(before, args, bytes.Equal), "words are only looked at")
		}
	}
	c := read("CL.LIMIT k RATE 5/s MAXWAIT " + strings.Repeat("s", 1<<20))
	requireError(t, c, fmt.Sprintf("ERR syntax error near '%s...': %s", strings.Repeat("s", 40), badMaxWait), "1 MB of units")
}

func TestEveryErrorFitsItsBuffer(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 1000)
	var rights []string
	for _, form := range forms {
		s := Compile(form)
		for _, kind := range s.kinds {
			rights = append(rights, expected+list(kind.owned)+s.expectedTerm)
		}
		rights = append(rights, expected+s.expected, expected+s.expectedLimit+numKeysIs+"8, so WINDOW"+isAKey)
	}
	for i := range vocabulary {
		if w := &vocabulary[i]; w.value != nil {
			rights = append(rights, w.name+" "+w.value.right)
		}
	}
	rights = append(rights, tooFast, tooLong, tooSlow, tooFine, tooMany, noPeriod, longOffset, zoneNeedsDays, firstHasLength, misplacedTerm,
		severalInOne, unitsAreLower, oneGroupOrAll)
	var p Parser
	var room [MaxErrorLen]byte
	for _, right := range rights {
		text := p.Near(long, right).AppendTo(room[:0])
		assert.LessOrEqual(t, len(text), MaxErrorLen, right)
		assert.Same(t, &room[0], &text[0], "in place: %s", right)
	}
}

func TestAChoiceIsAListWithOr(t *testing.T) {
	for want, names := range map[string][]string{"": {}, "A": {"A"}, "A or B": {"A", "B"}, "A, B or C": {"A", "B", "C"}} {
		assert.Equal(t, want, oneOf(names))
	}
}

// The error is the same, however a period is written that is too long.
func TestATooLongPeriodIsNamedHoweverItIsWritten(t *testing.T) {
	for _, period := range []string{"9223372037s", "9223372036.854775808s", "9223372036854.775808ms", "9999999999999999999999s", "99999999999999999999.5d", "106752d", "300000d"} {
		for _, limit := range []string{"WINDOW 1/", "FIXED 1/", "RATE 1/"} {
			got := read("CL.LIMIT k " + limit + period).error
			assert.Contains(t, got, "1/"+period+"': the period is longer than 292 years", limit)
		}
		assert.Contains(t, read("CL.LIMIT k FIXED 1/"+period+" FIRST").error, "the period is longer than 292 years")
	}
}

// A name that is missing is not guessed from the word that follows.
func TestNoWordIsTakenForAZone(t *testing.T) {
	for _, command := range []string{"CL.LIMIT k", "CL.MLIMIT 1 k", "CL.SETTLE 1 k", "CL.WAIT k", "CL.PEEK k", "CL.REFUND k"} {
		for _, w := range vocabulary {
			requireError(t, read(command+" FIXED 5/d TZ "+w.name), "ERR syntax error near '"+w.name+"': "+badZone, command+" "+w.name)
		}
	}
}
