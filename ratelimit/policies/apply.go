package policies

import (
	"errors"
	"slices"

	"redis-throttle/ratelimit"
)

// Apply is a call on one key with the limits and the ban of r, for programs that apply rules by themselves (NewReader,
// Parse). The error says why the limits of the call count instead. A rule that lets everything through (None) has no
// call.
func (r *Rule) Apply(call ratelimit.Call) (ratelimit.Call, error) {
	limits, why := r.limitsFor(&call, call.Keys[0].Limits)
	if why != "" {
		return call, errors.New(why)
	}
	call.Keys = slices.Clone(call.Keys)
	call.Keys[0].Limits = limits
	r.ban(&call)
	return call, nil
}
