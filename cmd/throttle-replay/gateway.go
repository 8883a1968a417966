package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"

	"redis-throttle/cmd/throttle-replay/fields"
	"redis-throttle/cmd/throttle-replay/logs"
	"redis-throttle/cmd/throttle-replay/replay"
	"redis-throttle/gateway/offline"
)

// gateway tries the files of throttle-gateway. What a request is subject to follows from the routes of the file, or, as
// with Envoy, from descriptors that somebody else makes.
type gateway struct {
	domain      *offline.Domain
	paths       []string
	descriptors [][]descriptorEntry // none goes by routes
	policies    string              // the name of the stage that its rules follow; "" for none
}

// descriptorEntry is a key of a descriptor, and how its value is made.
type descriptorEntry struct {
	key   string
	value *fields.Key
}

// newGateway reads files. Each of descriptors is written KEY=TEMPLATE, entries separated by semicolons.
func newGateway(paths []string, domain string, descriptors []string, trusted []netip.Prefix) (*gateway, error) {
	d, err := offline.Read(domain, paths...)
	if err != nil {
		return nil, err
	}
	g := &gateway{domain: d, paths: paths}
	for _, text := range descriptors {
		var entries []descriptorEntry
		for part := range strings.SplitSeq(text, ";") {
			key, template, ok := strings.Cut(strings.TrimSpace(part), "=")
			if !ok || key == "" || template == "" {
				return nil, fmt.Errorf("--descriptor %q: expected KEY=TEMPLATE, such as remote_address={remote_addr}; semicolons separate several entries", text)
			}
			value, err := fields.ParseKey(template, trusted)
			if err != nil {
				return nil, fmt.Errorf("--descriptor %q: %s", text, strings.TrimPrefix(err.Error(), "--key "))
			}
			entries = append(entries, descriptorEntry{key, value})
		}
		g.descriptors = append(g.descriptors, entries)
	}
	if len(g.descriptors) == 0 && !d.HasRoutes() {
		return nil, fmt.Errorf("the domain %q has no routes: say with --descriptor what your proxy sends, such as --descriptor 'remote_address={remote_addr}'", d.Name)
	}
	return g, nil
}

func (g *gateway) Name() string {
	if g.policies != "" {
		return "gateway, " + g.policies
	}
	return "gateway"
}

// follow has rules with a policy decided by a stage.
func (g *gateway) follow(s *stage, notes io.Writer) {
	g.policies = s.name
	g.domain.SetPolicies(s.rules, func(field string, err error) {
		fmt.Fprintf(notes, "note: %s of %s is not for a rule of the gateway, whose own limits count: %v\n", word(field), s.name, err)
	})
}

// Words names the files.
func (g *gateway) Words() string {
	var names []string
	for _, path := range g.paths {
		names = append(names, filepath.Base(path))
	}
	return "domain " + g.domain.Name + " of " + strings.Join(names, ", ")
}

// Bind is of replay.Gateway.
func (g *gateway) Bind(l logs.Layout) (func(*logs.Record) any, error) {
	if len(g.descriptors) > 0 {
		return g.bindDescriptors(l)
	}
	return g.bindRequest(l)
}

// bindDescriptors makes descriptors. One with an entry that the request has no value for is left out.
func (g *gateway) bindDescriptors(l logs.Layout) (func(*logs.Record) any, error) {
	type bound struct {
		key   string
		value *fields.BoundKey
	}
	all := make([][]bound, len(g.descriptors))
	for i, entries := range g.descriptors {
		for _, e := range entries {
			value, err := e.value.Bind(l)
			if err != nil {
				return nil, fmt.Errorf("--descriptor: %w", errors.Unwrap(err))
			}
			all[i] = append(all[i], bound{e.key, value})
		}
	}
	return func(r *logs.Record) any {
		var descriptors [][]offline.Entry
	next:
		for _, entries := range all {
			var made []offline.Entry
			for _, e := range entries {
				value, ok := e.value.Append(nil, r)
				if !ok {
					continue next
				}
				made = append(made, offline.Entry{Key: e.key, Value: string(value)})
			}
			descriptors = append(descriptors, made)
		}
		return descriptors
	}, nil
}

// bindRequest makes requests, as far as the log says what they were. It has to say all that the routes ask for.
func (g *gateway) bindRequest(l logs.Layout) (func(*logs.Record) any, error) {
	wanted := map[string]int{}
	for name, isNeeded := range map[string]bool{"method": true, "uri": true, "remote_addr": true, "host": false, "x_forwarded_for": false} {
		at, err := l.Want(name)
		if err != nil && isNeeded {
			return nil, fmt.Errorf("--gateway: %w", err)
		}
		if err == nil {
			wanted[name] = at
		}
	}
	headers := map[string]int{}
	for _, name := range g.domain.Headers() {
		name = http.CanonicalHeaderKey(name)
		at, err := l.Want("header:" + name)
		if name == "Host" {
			at, err = l.Want("host")
		}
		if err != nil {
			return nil, fmt.Errorf("--gateway: the rules ask for the header field %s, which the log does not have: %w", name, err)
		}
		headers[name] = at
	}
	for _, name := range []string{"Origin", "Access-Control-Request-Method"} { // by which preflights are told, if the log has them
		if at, err := l.Want("header:" + name); err == nil {
			headers[name] = at
		}
	}
	return func(r *logs.Record) any {
		text := func(name string) string {
			at, ok := wanted[name]
			if !ok || string(r.Fields[at]) == "-" {
				return ""
			}
			return string(r.Fields[at])
		}
		header := http.Header{}
		for name, at := range headers {
			if value := string(r.Fields[at]); value != "" && value != "-" {
				header[name] = []string{value}
			}
		}
		if value := text("x_forwarded_for"); value != "" {
			header["X-Forwarded-For"] = []string{value}
		}
		peer := text("remote_addr")
		if addr, err := netip.ParseAddr(peer); err == nil {
			peer = net.JoinHostPort(addr.String(), "0")
		} else if peer == "unix:" {
			peer = "@"
		}
		return offline.Request(text("method"), text("host"), text("uri"), peer, header)
	}, nil
}

// Decide is of replay.Gateway.
func (g *gateway) Decide(nowNs int64, request any, cost int64) (v replay.Verdict, err error) {
	var o offline.Outcome
	if q, ok := request.(*http.Request); ok {
		o, err = g.domain.DecideRequest(nowNs, q)
	} else {
		o, err = g.domain.DecideDescriptors(nowNs, request.([][]offline.Entry), cost)
	}
	if err != nil {
		return v, fmt.Errorf("--gateway: %w", err)
	}
	v.Denied, v.RetryMs = o.Denied, ms(o)
	for _, rule := range o.Rules {
		one := replay.RuleVerdict{Words: rule.Rule + ": " + rule.Limits, Denied: rule.Denied, Shadow: rule.Shadow, RetryMs: -1}
		if rule.RetryAfter != offline.Never {
			one.RetryMs = rule.RetryAfter.Milliseconds()
		}
		v.Rules = append(v.Rules, one)
	}
	return v, nil
}

func ms(o offline.Outcome) int64 {
	if o.RetryAfter == offline.Never {
		return -1
	}
	return o.RetryAfter.Milliseconds()
}
