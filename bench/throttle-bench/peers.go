package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"redis-throttle/bench/internal/must"
	"redis-throttle/bench/internal/server"
)

// peerTemplate is the form of a peer's call unless it is given: that of redis-cell's
// CL.THROTTLE and of RATER.LIMIT.
const peerTemplate = "{key} {burst} {count} {period} {quantity}"

// parsePeers reads a list of further modules and returns their contenders: words
// "path.so:COMMAND", each followed by the template of its arguments or, where that is
// peerTemplate, by nothing. The command's reply must begin with 0 (allowed) or 1.
func parsePeers(list string) (peers []contender, err error) {
	fields := strings.Fields(list)
	for i := 0; i < len(fields); {
		module, command, ok := strings.Cut(fields[i], ".so:")
		if !ok || module == "" || command == "" {
			return nil, fmt.Errorf("peers: %q is not of the form path.so:COMMAND", fields[i])
		}
		var args []string
		for i++; i < len(fields) && !strings.Contains(fields[i], ".so:"); i++ {
			args = append(args, fields[i])
		}
		template := cmp.Or(strings.Join(args, " "), peerTemplate)
		if !strings.Contains(template, "{key}") {
			return nil, fmt.Errorf("peers: the arguments of %s have no {key}: %q", command, template)
		}
		peers = append(peers, peerContenders(must.Get(filepath.Abs(module+".so")), command, template)...)
	}
	return peers, nil
}

// peerContenders have the same limits as our own.
func peerContenders(path, command, template string) []contender {
	name := strings.TrimSuffix(filepath.Base(path), ".so") + ": " + command
	call := func(burst, count, period string) string {
		return command + " " + strings.NewReplacer("{burst}", burst, "{count}", count, "{period}", period, "{quantity}", "1").Replace(template)
	}
	return []contender{
		{Name: name + " allowed", Group: groupPeer, Kind: "other allowed", Host: path, Call: call("999", "1000", "60"), Keeps: []string{call("999", "1000", "86400")}},
		{Name: name + " denied", Group: groupPeer, Kind: "other denied", Host: path, Call: call("0", "1", "3600")},
	}
}

// withBuilds sets other builds of the module beside this one: each makes the same calls, in
// slices next to this one's. The baseline on its server tells the two servers apart.
func withBuilds(list []contender, builds []string) (all []contender) {
	names := buildNames(builds)
	for _, c := range list {
		all = append(all, c)
		if ours := strings.HasPrefix(c.Call, "CL."); c.Host != hostMain || !ours && c.Name != baseline {
			continue
		}
		for i, path := range builds {
			twin := c
			twin.Name = names[i] + ": " + c.Name
			twin.Group, twin.Host, twin.Beside, twin.Keeps = groupBuild, path, c.Name, nil
			all = append(all, twin)
		}
	}
	return all
}

// withServers sets what is measured beside another module on further servers, too: each with the module alone, and with
// the other. Ratios to the baseline are those to its twin on the same server.
func withServers(list []contender, programs []string) []contender {
	for _, program := range programs {
		name := server.VersionOf(program)
		twin := func(of, beside string) contender {
			c := list[slices.IndexFunc(list, func(c contender) bool { return c.Name == of })]
			c.Name, c.Beside = name+": "+c.Name, name+": "+beside
			c.Group, c.Program, c.Keeps = groupServer, program, nil
			return c
		}
		var twins []contender
		for _, c := range list {
			if c.Host == hostOther && c.Program == "" {
				twins = append(twins, twin(c.Beside, baseline), twin(c.Name, c.Beside))
			}
		}
		list = append(append(list, twin(baseline, "")), twins...)
	}
	return list
}

// withoutTwins leaves out what is compared with nothing but its twin.
func withoutTwins(list []contender) []contender {
	return slices.DeleteFunc(slices.Clone(list), func(c contender) bool { return c.isBuild() || c.Group == groupServer })
}

// buildNames are the names of the files, or their paths where several files have one name.
func buildNames(builds []string) (names []string) {
	files := map[string]int{}
	for _, path := range builds {
		files[filepath.Base(path)]++
	}
	for _, path := range builds {
		name := path
		if files[filepath.Base(path)] == 1 {
			name = filepath.Base(path)
		}
		names = append(names, strings.TrimSuffix(name, ".so"))
	}
	return names
}
