package ratelimittest

import (
	"fmt"
	"strconv"

	"redis-throttle/command"
	"redis-throttle/embedded"
)

// outcome is how a command ended.
type outcome struct {
	reply any
	err   error
}

// outcomeOf is r as go-redis returns the reply in RESP2. It holds nothing of r.
func outcomeOf(r *embedded.Reply) outcome {
	switch r.Kind {
	case command.ReplyError:
		return outcome{err: ReplyError(r.Error)}
	case command.ReplyInteger:
		return outcome{reply: r.Integers[0]}
	}
	reply := make([]any, 0, len(r.Integers)+len(r.Each)+4)
	switch r.Kind {
	case command.ReplyFields, command.ReplyFieldsEach, command.ReplyLeases:
		for i, n := range r.Integers {
			reply = append(reply, r.Names[i], n)
		}
	default:
		for _, n := range r.Integers {
			reply = append(reply, n)
		}
	}
	switch r.Kind {
	case command.ReplyIntegersEach:
		reply = append(reply, eachOf(r)...)
	case command.ReplyFieldsEach:
		reply = append(reply, command.EachField, eachOf(r))
	case command.ReplyRows:
		reply = append(reply, rowsOf(r.Rows, r.Names)...)
	case command.ReplyLeases:
		reply = append(reply, r.Names[2], rowsOf(r.Rows, r.Names[3:5]), r.Names[5], r.GroupsIn, r.Names[6], rowsOf(r.Groups, r.Names[7:]))
	}
	return outcome{reply: reply}
}

func eachOf(r *embedded.Reply) []any {
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

func rowsOf(rows []embedded.Row, names []string) []any {
	all := make([]any, len(rows))
	for i, row := range rows {
		one := []any{names[0], row.Text}
		for j, n := range row.Integers {
			one = append(one, names[1+j], n)
		}
		all[i] = one
	}
	return all
}

// appendWord writes an argument as go-redis sends it.
func appendWord(b []byte, arg any) []byte {
	switch arg := arg.(type) {
	case string:
		return append(b, arg...)
	case []byte:
		return append(b, arg...)
	case int64:
		return strconv.AppendInt(b, arg, 10)
	}
	return fmt.Append(b, arg)
}
