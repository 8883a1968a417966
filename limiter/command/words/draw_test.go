package words

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/limiter/stack"
)

// What the vocabulary says is accepted: calls drawn from it are parsed, unless they have words that exclude
// each other, which is refused in these terms.
func TestCallsDrawnFromTheVocabularyAreAccepted(t *testing.T) {
	syntaxes := make([]Syntax, len(forms))
	wanted := map[string]bool{}
	for i, form := range forms {
		s := Compile(form)
		syntaxes[i] = s
		for _, w := range slices.Concat(s.options, s.kinds, s.terms) {
			wanted[form.Command+" "+w.name] = true
		}
	}
	random := chance.New(t)
	for i := 0; i < 1000 || len(wanted) > 0; i++ {
		require.Less(t, i, 1_000_000, "never drawn: %v", wanted)
		drawn := random.IntN(len(forms))
		s := &syntaxes[drawn]
		line, clash := drawCall(random, s)
		var p Parser
		var r Request
		var groups [2]stack.Stack
		p.begin(s, &r, split(line), 1, &groups[0])
		p.groups, p.slotsOf = groups[:], make([]SlotGroup, len(groups))
		err := p.parse()
		if clash != "" {
			require.ErrorContains(t, err, clash, line)
			continue
		}
		require.Nil(t, err, line)
		for _, word := range strings.Fields(line) {
			delete(wanted, forms[drawn].Command+" "+word)
		}
	}
}

// drawCall draws a call: each required word, some of the others, in any order. clash is a part of the error
// if some of them exclude each other.
func drawCall(random *rand.Rand, s *Syntax) (line, clash string) {
	chosen := func(*word) bool { return random.IntN(4) == 0 }
	has := map[*word]bool{}
	ratesOnly := true
	said := func(w *word) string {
		has[w] = true
		if w.value == nil {
			return " " + w.name
		}
		return " " + w.name + " " + rightFor[w.value]
	}
	limit := func() (text string) {
		for _, kind := range s.kinds[:1+random.IntN(len(s.kinds))] {
			ratesOnly = ratesOnly && kind.name == "RATE"
			text += said(kind)
			first := false
			for _, w := range kind.owned {
				if (w.excluded == nil || !first) && chosen(w) {
					text += said(w)
					first = first || w.name == "FIRST"
					delete(has, w)
				}
			}
			for _, w := range s.terms {
				switch {
				case w.name == "USED" || !chosen(w): // USED goes with TAKE
				case s.settles && w.name == "TAKE":
					text += said(w) + said(rowOf(vocabulary, "USED"))
				default:
					text += said(w)
				}
			}
		}
		return text
	}
	group := func() string {
		switch {
		case s.form == WithoutSlots || random.IntN(2) == 0:
			return limit()
		case s.form == SlotsAlone:
			has[s.slots] = true
			return " " + s.slots.name
		}
		return said(s.slots) + said(slotsTTL)
	}
	var parts []string
	for _, w := range s.options {
		switch {
		case w.name == next:
			continue
		case w == s.repeated:
			parts = append(parts, said(w)+" another")
		case slices.Contains(s.required, w) || chosen(w):
			parts = append(parts, said(w))
		}
	}
	line = "k"
	if len(s.kinds) > 0 {
		line += group()
		if s.next != nil && random.IntN(2) == 0 {
			line += " " + next + group()
		}
	}
	random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	line += strings.Join(parts, "")
	for w := range has {
		for _, other := range w.excluded {
			if has[other] {
				clash = cannotGoWith
			}
		}
		switch {
		case clash == cannotGoWith:
		case w.needed != nil && !has[w.needed]:
			clash = onlyWith
		case clash == onlyWith:
		case w.rates && !ratesOnly:
			clash = onlyRates
		case w.notRatesAlone && ratesOnly && len(s.kinds) > 0:
			clash = onlyTurns
		}
	}
	if clash != cannotGoWith && s.form != WithoutSlots {
		switch hasSlots, hasID := has[s.slots], has[idWord]; {
		case hasSlots && !hasID:
			clash = slotsNeedID
		case !hasSlots && s.form == SlotsAlone:
			clash = settleOnce
		case !hasSlots && hasID:
			clash = needsSlots
		}
	}
	return line, clash
}

// rightFor has something right for each value.
var rightFor = map[*value]string{
	&units: "0", &slots: "3", &rows: "1", &capacity: "9", &duration: "0", &offset: "1s", &ttl: "1ms", &id: "one", &zone: "UTC",
	&quota: "5/m", &calendarQuota: "5/d", &groupName: "tenant", &priority: "-7", &weight: "3", &denials: "5/m",
}
