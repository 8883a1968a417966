package must_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/bench/internal/must"
)

func caught(f func()) (err error) {
	defer must.Catch(&err)
	f()
	return nil
}

func TestAFailureIsTheErrorOfWhoCatchesIt(t *testing.T) {
	cause := errors.New("cause")
	stopped := false
	err := caught(func() {
		defer func() { stopped = true }()
		defer must.Name("step %d", 3)
		must.Do(nil)
		must.Get(1, cause)
	})
	assert.ErrorIs(t, err, cause)
	assert.EqualError(t, err, "step 3: cause")
	assert.True(t, stopped, "deferred calls are made")
	assert.NoError(t, caught(func() { defer must.Name("fine") }))
}

func TestOtherPanicsGoOn(t *testing.T) {
	assert.PanicsWithValue(t, "bug", func() { _ = caught(func() { defer must.Name("step"); panic("bug") }) })
}
