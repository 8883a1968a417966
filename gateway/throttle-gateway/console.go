package main

import (
	"context"
	"encoding/json"
	"strings"

	"redis-throttle/gateway/console"
	"redis-throttle/gateway/internal/explain"
)

// known is what the console shows of this process.
type known struct{ g *gateway }

func (k known) Counts() console.Counts { return k.g.service.Counts() }
func (k known) Forget(key string)      { k.g.chain.Forget(key) }

func (k known) Status() console.Status {
	status := k.g.service.Status()
	status.BreakerOpen = k.g.chain.Out()
	return status
}

// console makes the page of the debug address.
func (g *gateway) console() *console.Console {
	c := console.New(g.client, console.Options{
		Name: "throttle-gateway console", Token: g.s.ConsoleToken, Hosts: g.s.ConsoleHosts, Hash: g.s.Redis.Policies, Gateway: known{g}, Explain: g.explain,
	})
	go c.Watch(g.running)
	return c
}

// explain answers what somebody types into the page.
func (g *gateway) explain(ctx context.Context, text json.RawMessage) (any, error) {
	var typed struct{ Request, From, Headers string }
	if err := json.Unmarshal(text, &typed); err != nil {
		return nil, err
	}
	q, err := explain.Typed(typed.Request, typed.From, strings.FieldsFunc(typed.Headers, func(c rune) bool { return c == '\n' || c == '\r' }))
	if err != nil {
		return nil, err
	}
	x, err := g.explainer.Explain(ctx, q)
	return map[string]string{"text": x.Text()}, err
}
