package ratelimit

import (
	"context"
	"fmt"
	"slices"
	"strconv"
)

// KeyLimits are the limits of one of several keys.
type KeyLimits struct {
	Key    string
	Limits Limits
}

// KeysResult is how a call on several keys went.
type KeysResult struct {
	// Result is about a limit of one of the keys: Rule is its index in the Limits of that key.
	Result
	// Key is the index of that key: of the one that was charged or is banned, too.
	Key int
	// ShadowKey is the index of the key whose limit Shadow is.
	ShadowKey int
}

// LimitKeys sends CL.MLIMIT: it asks the limits of up to eight keys at one instant, and charges
// all of them or none. In a cluster the keys must be in one slot, which a hash tag sees
// to: "{acme}:user:42" and "{acme}".
func (l *Limiter) LimitKeys(ctx context.Context, keys []KeyLimits, opts ...LimitOption) *Reply[KeysResult] {
	return l.askKeys(ctx, keys, opts)
}

// LimitAny sends CL.MLIMIT with ANY: it charges the first of up to eight keys that has room,
// in the order given. With MaxWait that is the one with the shortest wait when none has. When the call
// is limited, the result is about the key with the shortest RetryAfter.
func (l *Limiter) LimitAny(ctx context.Context, keys []KeyLimits, opts ...LimitOption) *Reply[KeysResult] {
	return l.askKeys(ctx, keys, append(opts[:len(opts):len(opts)], words{"ANY"}))
}

func (l *Limiter) askKeys(ctx context.Context, keys []KeyLimits, opts []LimitOption) *Reply[KeysResult] {
	const name = "CL.MLIMIT"
	args := []any{name, strconv.Itoa(len(keys))}
	rules, same := 0, true
	for _, k := range keys {
		args = append(args, k.Key)
		rules += len(k.Limits)
		same = same && slices.Equal(k.Limits, keys[0].Limits)
	}
	for i, k := range keys {
		if i > 0 && same { // one group without NEXT is that of every key
			break
		}
		if i > 0 {
			args = append(args, "NEXT")
		}
		for _, limit := range k.Limits {
			words, err := limit.words()
			if err != nil {
				return &Reply[KeysResult]{name: name, err: err}
			}
			args = append(args, words...)
		}
	}
	for _, o := range opts {
		args = append(args, o.words()...)
	}
	if rules > 0 { // otherwise the server's error would be about a word that the caller did not write
		args = append(args, compact)
	}
	parse := func(reply any) (KeysResult, error) { return parseKeys(reply, keys, rules) }
	return sendTo(ctx, l.client, charges, 2, parse, args...)
}

// parseKeys reads the reply of CL.MLIMIT with COMPACT. It counts the limits of all keys in a row.
func parseKeys(reply any, keys []KeyLimits, rules int) (KeysResult, error) {
	result, err := parseCompact(reply, rules)
	if err != nil {
		return KeysResult{}, err
	}
	elements := reply.([]any)
	var n [11]int64
	if !integers(elements, n[:]) || n[10] < 1 || n[10] > int64(len(keys)) {
		return KeysResult{}, fmt.Errorf("the reply is %v, whose key is none of the %d", reply, len(keys))
	}
	r := KeysResult{Result: result, Key: int(n[10]) - 1}
	if !r.Banned {
		var key int
		if key, r.Rule = place(keys, r.Rule); key != r.Key {
			return KeysResult{}, fmt.Errorf("the reply is %v, whose rule is none of its key", reply)
		}
	}
	if r.Shadowed {
		r.ShadowKey, r.Shadow = place(keys, r.Shadow)
	}
	return r, nil
}

// place is where a limit is that is counted through all keys.
func place(keys []KeyLimits, rule int) (key, index int) {
	for rule >= len(keys[key].Limits) {
		rule -= len(keys[key].Limits)
		key++
	}
	return key, rule
}
