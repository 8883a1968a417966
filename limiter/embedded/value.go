package embedded

import "redis-throttle/limiter/command"

// Map is a map of a reply: names and values by turns, as RESP2 sends it in an array.
type Map []any

// Value is a reply that is no error, made of int64, string, []any and Map. It holds nothing of the Reply.
func (r *Reply) Value() any {
	if r.Kind == command.ReplyInteger {
		return r.Integers[0]
	}
	all := make([]any, 0, 16) // enough for most
	switch r.Kind {
	case command.ReplyFields, command.ReplyFieldsEach, command.ReplyLeases:
		for i, n := range r.Integers {
			all = append(all, r.Names[i], n)
		}
	default:
		for _, n := range r.Integers {
			all = append(all, n)
		}
	}
	switch r.Kind {
	case command.ReplyIntegersEach:
		return append(all, r.each()...)
	case command.ReplyFields:
		return Map(all)
	case command.ReplyFieldsEach:
		return Map(append(all, command.EachField, r.each()))
	case command.ReplyRows:
		return append(all, values(r.Rows, r.Names)...)
	case command.ReplyNested:
		at := len(r.Rows[0].Integers) + 1
		head := values(r.Rows[:1], r.Names)[0].(Map)
		return append(head, r.Names[at], values(r.Rows[1:], r.Names[at+1:]))
	case command.ReplyLeases:
		return Map(append(all, r.Names[2], values(r.Rows, r.Names[3:5]), r.Names[5], r.GroupsIn, r.Names[6], values(r.Groups, r.Names[7:])))
	}
	return all
}

func (r *Reply) each() []any {
	all := make([]any, len(r.Each))
	for i, fields := range r.Each {
		one := make([]any, len(fields))
		for j, n := range fields {
			one[j] = n
		}
		all[i] = one
	}
	return all
}

func values(rows []Row, names []string) []any {
	all := make([]any, len(rows))
	for i, row := range rows {
		one := Map{names[0], row.Text}
		for j, n := range row.Integers {
			one = append(one, names[1+j], n)
		}
		all[i] = one
	}
	return all
}
