package main

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
)

// listContenders prints who would take part, and with what call.
func listContenders(o options, list []Contender) error {
	t := newTable("", "contender", "group", "call", "script")
	for _, c := range list {
		t.AppendRow(table.Row{c.Name, c.Group, c.Args, c.Script})
	}
	fmt.Fprintln(o.stdout, t.Render())
	return nil
}
