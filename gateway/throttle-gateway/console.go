package main

import (
	"redis-throttle/gateway/console"
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
		Name: "throttle-gateway console", Token: g.s.ConsoleToken, Hosts: g.s.ConsoleHosts, Hash: g.s.Redis.Policies, Gateway: known{g},
	})
	go c.Watch(g.running)
	return c
}
