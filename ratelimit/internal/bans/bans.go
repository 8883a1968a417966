// Package bans checks the options for bans of a middleware when it is made, since a mistake would show itself with the
// first request only.
package bans

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
)

var errSent = errors.New("the call would be sent")

// nowhere sends nothing.
type nowhere struct{}

func (nowhere) Process(_ context.Context, cmd redis.Cmder) error {
	cmd.SetErr(errSent)
	return errSent
}

var anyLimits = ratelimit.Limits{ratelimit.Rate(1, time.Second)}

// Check says what is wrong with Ban and BanAfter of a call.
func Check(ban time.Duration, after string) error {
	if ban < 0 {
		return fmt.Errorf("a Ban of %v: it is how long a ban lasts", ban)
	}
	call := ratelimit.Call{Keys: []ratelimit.Key{{Name: "any", Limits: anyLimits}}, Ban: ban, BanAfter: after}
	_, err := ratelimit.New(nowhere{}, ratelimit.Options{}).Decide(context.Background(), call)
	if errors.Is(err, errSent) {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), "ratelimit: CL.LIMIT: "))
}
