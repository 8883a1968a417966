package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	layer "redis-throttle/ratelimit/policies"
)

// Policies are those of the hash.
type Policies struct {
	Hash  string   `json:"hash"`
	Rows  []Policy `json:"rows"`
	Count int      `json:"count"` // of fields
	More  int      `json:"more"`  // that match the filter and are not in Rows
}

// Policy is a field of the hash.
type Policy struct {
	Field  string `json:"field"`
	Value  string `json:"value"`
	Text   string `json:"text"`            // Field as the page shows it
	Limits string `json:"limits"`          // and Value
	Fixed  bool   `json:"fixed"`           // it is too long or too odd for the page to change
	Error  string `json:"error,omitempty"` // the value does not count
	Shadow bool   `json:"shadow"`          // a limit of it is a rehearsal
	// Lately is what the gateway counted in the last minutes.
	Lately *Count `json:"lately,omitempty"`
	// Keys is how many of the keys of CL.TOP SHADOW the field names, and Would how often shadows would have denied
	// these.
	Keys  int   `json:"keys"`
	Would int64 `json:"would"`
}

const (
	shownPolicies = 60
	// wholeHash is how many fields are read each time. More are read when @version has changed, or after wholeAfter.
	wholeHash     = 1000
	wholeAfter    = 30 * time.Second
	longestRow    = 400
	longestPolicy = 4096
)

// policies are what the hash said last.
type policies struct {
	hash    string
	fields  map[string]string
	version string
	whole   time.Time
	sorted  []Policy
	rules   *layer.Rules
}

// read reads the hash, as rarely as programs do.
func (p *policies) read(ctx context.Context, client redis.UniversalClient, hash string, now time.Time) error {
	p.hash = hash
	pipe := client.Pipeline()
	length, version := pipe.HLen(ctx, hash), pipe.HGet(ctx, hash, "@version")
	if _, err := pipe.Exec(ctx); !isReply(err) {
		return err
	}
	if err := length.Err(); err != nil {
		return err
	}
	if length.Val() > wholeHash && version.Val() == p.version && now.Sub(p.whole) < wholeAfter {
		return nil
	}
	fields, err := client.HGetAll(ctx, hash).Result()
	if err != nil {
		return err
	}
	p.version, p.whole = version.Val(), now
	p.take(fields)
	return nil
}

// take parses what the hash says, if that has changed.
func (p *policies) take(fields map[string]string) {
	if p.sorted != nil && maps.Equal(fields, p.fields) {
		return
	}
	p.fields, p.sorted = fields, []Policy{}
	p.rules, _ = layer.Parse(fields)
	for field, value := range fields {
		if strings.HasPrefix(field, "@") {
			continue
		}
		row := Policy{Field: field, Value: value, Text: shown(field, shownKey), Limits: shown(value, longestRow)}
		if len(field)+len(value) > longestPolicy || !utf8.ValidString(field+value) {
			row.Fixed, row.Field, row.Value = true, row.Text, row.Limits
		}
		if of, err := layer.ParseField(field); err != nil {
			row.Error = "this is not the name of a policy"
		} else if parsed, err := layer.ParseValue(of.Name, value); err != nil {
			row.Error = said(err)
		} else {
			row.Shadow = parsed.Shadows()
		}
		p.sorted = append(p.sorted, row)
	}
	slices.SortFunc(p.sorted, func(a, b Policy) int { return cmp.Compare(a.Field, b.Field) })
}

// shown has all rows, with what shadows would have denied.
func (p *policies) shown(shadows List) Policies {
	keys, would := map[string]int{}, map[string]int64{}
	for _, row := range shadows.Rows {
		for field := range p.fields {
			of, err := layer.ParseField(field)
			if err != nil || of.Keys == layer.Everybody {
				continue // which policy a key has, only the code and a gateway know
			}
			if rule := p.rules.Choose(of.Name, string(row.Key.Raw)); row.Here && rule != nil && rule.Field == field {
				keys[field]++
				would[field] += row.Count
			}
		}
	}
	all := Policies{Hash: p.hash, Count: len(p.sorted), Rows: slices.Clone(p.sorted)}
	for i := range all.Rows {
		all.Rows[i].Keys, all.Rows[i].Would = keys[all.Rows[i].Field], would[all.Rows[i].Field]
	}
	return all
}

// filtered has the rows that hold a text, and no more than the page shows: rehearsals first, then those that deny most.
func (p *policies) filtered(filter string, all Policies) Policies {
	rows := []Policy{}
	for _, row := range all.Rows {
		if strings.Contains(strings.ToLower(row.Text), strings.ToLower(filter)) {
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b Policy) int {
		return cmp.Or(cmp.Compare(denied(b), denied(a)), order(b.Error != "", a.Error != ""), order(b.Shadow, a.Shadow))
	})
	if len(rows) > shownPolicies {
		rows, all.More = rows[:shownPolicies], len(rows)-shownPolicies
	}
	all.Rows = rows
	return all
}

func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func denied(p Policy) float64 {
	if p.Lately != nil {
		return p.Lately.Denied + p.Lately.Shadowed
	}
	return float64(p.Would)
}

// Checked is what a value means before it is written.
type Checked struct {
	Error  string   `json:"error,omitempty"` // programs could not read it
	Limits []string `json:"limits"`          // one a line
	// Rehearsal is the value that keeps what counts now and has the new limits as shadows.
	Rehearsal string `json:"rehearsal,omitempty"`
	Problem   string `json:"problem,omitempty"` // why there is no rehearsal
	// Enforced are the shadows of the value as limits that deny.
	Enforced string `json:"enforced,omitempty"`
}

// check reads a value as programs will. q.Was is what counts now.
func (c *Console) check(_ context.Context, q *question) (any, error) {
	value, err := parse(q.Field, q.Value)
	if err != nil {
		return Checked{Error: said(err)}, nil // which is no failure of the question
	}
	all := Checked{Limits: value.Words(), Enforced: value.Enforced()}
	if value.None {
		all.Limits = []string{"NONE: everything is let through"}
	}
	of, _ := layer.ParseField(q.Field)
	if all.Rehearsal, err = layer.Rehearsal(of.Name, q.Was, q.Value); err != nil {
		all.Rehearsal, all.Problem = "", said(err)
	}
	return all, nil
}

// parse reads a field and its value.
func parse(field, text string) (layer.Value, error) {
	if strings.HasPrefix(field, "@") {
		return layer.Value{}, errors.New("fields that begin with @ are about the hash itself")
	}
	of, err := layer.ParseField(field)
	if err != nil {
		return layer.Value{}, fmt.Errorf("the name must be NAME, NAME/KEY or NAME/BEGINNING*; a name has 1 to 64 letters, digits, dots, _ and -")
	}
	return layer.ParseValue(of.Name, text)
}
