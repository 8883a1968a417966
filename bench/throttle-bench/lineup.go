package main

import (
	"context"
	"fmt"
	"slices"

	"redis-throttle/bench/throttle-bench/internal/load"
	"redis-throttle/bench/throttle-bench/internal/result"
	"redis-throttle/bench/throttle-bench/internal/server"
)

// lineup is the contenders of a run, ready on their servers.
type lineup struct {
	options  options
	keys     int
	hosts    map[string]*server.Server
	entrants []*entrant
	skipped  []string // why a contender is not among the entrants
}

// entrant is a contender that takes part.
type entrant struct {
	Contender
	host   *server.Server
	prefix string // of its keys
	sha    string
	ready  bool // Lasting, and set up

	rate    map[string]float64 // calls a second as warmed up, by the slice's name
	figures *result.Contender
}

// assemble starts the servers the contenders need, with further arguments for each.
// Close the lineup.
func assemble(ctx context.Context, o options, keys int, list []Contender, serverArgs ...string) (_ *lineup, err error) {
	l := &lineup{options: o, keys: keys, hosts: map[string]*server.Server{}}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	// The host with the module is there in any case: the results name its version.
	if err := l.startHost(ctx, hostMain, serverArgs); err != nil {
		return nil, err
	}
	for i, c := range list {
		if err := l.startHost(ctx, c.Host, serverArgs); err != nil {
			return nil, err
		}
		e := &entrant{
			Contender: c, host: l.hosts[c.Host], prefix: keyPrefix(i), rate: map[string]float64{},
			figures: &result.Contender{Name: c.Name, Group: c.Group, Command: c.Args},
		}
		known, err := e.host.Client.Do(ctx, "COMMAND", "INFO", c.command()).Slice()
		if err != nil {
			return nil, err
		}
		if len(known) != 1 || known[0] == nil {
			l.skipped = append(l.skipped, fmt.Sprintf("%s: the server has no %s", c.Name, c.command()))
			continue
		}
		if err := e.loadScript(ctx); err != nil {
			return nil, err
		}
		l.entrants = append(l.entrants, e)
	}
	for _, e := range l.entrants {
		if e.KeysOf == "" {
			continue
		}
		owner := l.find(e.KeysOf)
		if owner == nil {
			return nil, fmt.Errorf("%s shares keys with %s, which does not take part", e.Name, e.KeysOf)
		}
		e.prefix = owner.prefix
	}
	return l, nil
}

func (l *lineup) startHost(ctx context.Context, host string, args []string) error {
	if l.hosts[host] != nil {
		return nil
	}
	spec := server.Spec{Program: l.options.server, Module: host, ModuleArgs: moduleArgs[host], Args: args}
	switch host {
	case hostMain, hostTop:
		spec.Module = l.options.module
	case hostPlain:
		spec.Module = ""
	}
	s, err := server.Start(ctx, spec)
	if err != nil {
		return err
	}
	l.hosts[host] = s
	return nil
}

// Close stops the servers.
func (l *lineup) Close() {
	for _, s := range l.hosts {
		s.Close()
	}
}

func (l *lineup) find(name string) *entrant {
	i := slices.IndexFunc(l.entrants, func(e *entrant) bool { return e.Name == name })
	if i < 0 {
		return nil
	}
	return l.entrants[i]
}

// results are the figures so far.
func (l *lineup) results() []result.Contender {
	var all []result.Contender
	for _, e := range l.entrants {
		all = append(all, *e.figures)
	}
	return all
}

func (e *entrant) loadScript(ctx context.Context) error {
	if e.Script == "" {
		return nil
	}
	source, err := recipe(e.Script)
	if err != nil {
		return err
	}
	if e.sha, err = e.host.Client.ScriptLoad(ctx, source).Result(); err != nil {
		return fmt.Errorf("%s: %w", e.Script, err)
	}
	return nil
}

// call is a template filled in for one key.
func (e *entrant) call(template string, key, id int) []any {
	var args []any
	for _, word := range words(template, e.sha, e.prefix+keyNumber(key), keyNumber(id)) {
		args = append(args, word)
	}
	return args
}

// randomCall is a template as the load generators take it.
func (e *entrant) randomCall(template string) []string {
	return words(template, e.sha, e.prefix+load.RandomKey, load.RandomKey)
}

// each makes calls for the keys from 0 up to n, and fails when any is answered an error.
func (e *entrant) each(ctx context.Context, n int, templates []string) error {
	if len(templates) == 0 {
		return nil
	}
	var calls [][]string
	for _, template := range templates {
		calls = append(calls, e.randomCall(template))
	}
	if err := load.Each(ctx, e.host.Addr(), calls, n); err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	return nil
}

// prepare brings every key into the state the contender's name promises.
func (e *entrant) prepare(ctx context.Context, keys int) error {
	if e.ready || e.KeysOf != "" {
		return nil
	}
	if err := e.each(ctx, keys, e.setupCalls()); err != nil {
		return err
	}
	e.ready = e.Lasting
	return nil
}
