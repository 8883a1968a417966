package doors

import (
	"context"
	"fmt"
	"log/slog"
)

// Ask sends a command that looks at a key, its first argument behind the name, for somebody who has a client and no
// Limiter.
func Ask(ctx context.Context, client Sender, isOutage func(error) bool, command ...any) (reply any, err error) {
	way := Options{Logger: slog.New(slog.DiscardHandler)} // the Limiter on client has logged what the server has
	if chosen, ok := client.(*Chosen); ok {
		way.Only, client = chosen.Only, chosen.Sender
	}
	reply, err = New(client, way, isOutage).Send(ctx, &Command{Args: command, Key: 1, Newer: command[0] == "CL.INSPECT"})
	if IsMissing(err) { // servers repeat the arguments
		err = missingError(said(err))
	}
	return reply, err
}

// missingError is an error reply without a key.
type missingError string

func (e missingError) Error() string { return string(e) }

// RedisError marks it as a reply.
func (missingError) RedisError() {}

// Named are the fields of a map in RESP3, as go-redis or rueidis gives it, or of an array of names and
// values in RESP2; nil when reply is neither.
func Named(reply any) map[string]any {
	switch reply := reply.(type) {
	case map[string]any:
		return reply
	case map[any]any:
		fields := make(map[string]any, len(reply))
		for name, value := range reply {
			fields[fmt.Sprint(name)] = value
		}
		return fields
	case []any:
		fields := make(map[string]any, len(reply)/2)
		for i := 0; i+1 < len(reply); i += 2 {
			fields[fmt.Sprint(reply[i])] = reply[i+1]
		}
		return fields
	}
	return nil
}
