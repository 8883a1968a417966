package denials

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
)

// fill sets a field to a value that is not its zero value.
func fill(t *testing.T, field reflect.Value) {
	t.Helper()
	switch field.Kind() {
	case reflect.Bool:
		field.SetBool(true)
	case reflect.Int, reflect.Int64:
		field.SetInt(7)
	case reflect.String:
		field.SetString("x")
	default:
		require.Fail(t, "a field of another kind", field.Type())
	}
}

// A field that is added to Call or Key must not be lost on the way through cached and batched.
func TestNoFieldOfACallEscapes(t *testing.T) {
	t.Parallel()
	plain := ratelimit.Call{Keys: []ratelimit.Key{{Name: "k"}}}
	seen := map[ID]string{IDOf(&plain): "none"}
	note := func(name string, c *ratelimit.Call) {
		id := IDOf(c)
		assert.Empty(t, seen[id], name)
		seen[id] = name
	}
	for field := range reflect.TypeFor[ratelimit.Call]().Fields() {
		if field.Name == "Keys" {
			continue
		}
		c := plain
		fill(t, reflect.ValueOf(&c).Elem().FieldByIndex(field.Index))
		note(field.Name, &c)
		if field.Name != "Verb" {
			assert.NotEqual(t, OptionsOf(&plain), OptionsOf(&c), field.Name)
		}
	}
	for field := range reflect.TypeFor[ratelimit.Key]().Fields() {
		if field.Name == "Limits" { // AppendLimits tells them apart
			continue
		}
		c := ratelimit.Call{Keys: []ratelimit.Key{{Name: "k"}}}
		fill(t, reflect.ValueOf(&c.Keys[0]).Elem().FieldByIndex(field.Index))
		note("Key."+field.Name, &c)
		if field.Name != "Name" {
			assert.NotEqual(t, Slots{}, SlotsOf(&c.Keys[0]), field.Name)
		}
	}
}

// A cost of 1 is the same call, said or not.
func TestTheDefaultCostIsOne(t *testing.T) {
	t.Parallel()
	id := func(c ratelimit.Call) ID { return IDOf(&c) }
	assert.Equal(t, id(ratelimit.Call{}), id(ratelimit.Call{Cost: 1}))
	assert.NotEqual(t, id(ratelimit.Call{}), id(ratelimit.Call{NoCost: true}))
}
