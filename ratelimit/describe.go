package ratelimit

import "fmt"

// Words are the limits and the options of a call as CL.LIMIT takes them after the key: what
// something other than Redis needs for deciding the same. It is an error where Limit would have
// one without asking the server.
func Words(limits Limits, opts ...LimitOption) ([]string, error) {
	var all []string
	for _, limit := range limits {
		words, err := limit.words()
		if err != nil {
			return nil, err
		}
		all = appendWords(all, words)
	}
	for _, o := range opts {
		all = appendWords(all, o.words())
	}
	return all, nil
}

func appendWords(all []string, words []any) []string {
	for _, word := range words {
		if text, ok := word.(string); ok {
			all = append(all, text)
			continue
		}
		all = append(all, fmt.Sprint(word))
	}
	return all
}

// ResultOf is the Result that the integers of a reply of CL.LIMIT with COMPACT say, about so
// many limits.
func ResultOf(integers []int64, limits int) (Result, error) {
	reply := make([]any, len(integers))
	for i, n := range integers {
		reply[i] = n
	}
	return parseCompact(reply, limits)
}
