package linearizability

import (
	"slices"
	"strconv"
	"testing"

	"redis-throttle/tests/resp"
)

// Servers that change half of what an admission or a settlement changes, or change it twice, and answer as if they had not.
func TestAdmissionsAndSettlementsByHalfOrTwiceAreFoundOut(t *testing.T) {
	for name, test := range map[string]struct {
		of    func(words []string) bool
		means int64 // the first field of a reply to a call that is spoilt
		spoil func(do func(words ...string), words []string, slots, id string)
	}{
		"an admission without its lease": {isAdmission, 0, func(do func(...string), _ []string, slots, id string) {
			do("CL.RELEASE", slots, "ID", id)
		}},
		"an admission that is charged twice": {isAdmission, 0, func(do func(...string), words []string, slots, id string) {
			do("CL.RELEASE", slots, "ID", id)
			do(words...)
		}},
		"a settlement that ends no lease": {isSettlement, 1, func(do func(...string), _ []string, slots, id string) {
			do("CL.LEASE", slots, "SLOTS", "1000", "TTL", "20ms", "ID", id)
		}},
		"a settlement that is charged twice": {isSettlement, 1, func(do func(...string), words []string, slots, id string) {
			do("CL.LEASE", slots, "SLOTS", "1000", "TTL", "20ms", "ID", id)
			do(words...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			requireNotLinearizable(t, func(s *scene) *history {
				s.load.send = func(c *resp.Conn, words []string) (resp.Value, error) {
					v, err := c.Do(words...)
					if err != nil || !test.of(words) || len(v.Elems) == 0 || v.Elems[0].Int != test.means {
						return v, err
					}
					keys, _ := strconv.Atoi(words[1])
					do := func(words ...string) {
						if err == nil {
							_, err = c.Do(words...)
						}
					}
					test.spoil(do, words, words[1+keys], words[slices.Index(words, "ID")+1])
					return v, err
				}
				return s.run(s.clock.Start(), nothing)
			})
		})
	}
}

// isAdmission says whether a call takes slots together with units.
func isAdmission(words []string) bool {
	return words[0] == "CL.MLIMIT" && slices.Contains(words, "SLOTS")
}

func isSettlement(words []string) bool { return words[0] == "CL.SETTLE" }
