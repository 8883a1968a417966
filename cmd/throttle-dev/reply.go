package main

import (
	dev "github.com/alicebob/miniredis/v2/server"

	"redis-throttle/command"
	"redis-throttle/embedded"
)

// writeReply writes a reply as the module does, in the client's protocol.
func writeReply(w *dev.Writer, r embedded.Reply) {
	switch r.Kind {
	case command.ReplyError:
		w.WriteError(r.Error)
	case command.ReplyInteger:
		w.WriteInt(int(r.Integers[0]))
	case command.ReplyIntegers, command.ReplyIntegersEach:
		w.WriteLen(len(r.Integers) + len(r.Each))
		for _, n := range r.Integers {
			w.WriteInt(int(n))
		}
		writeEach(w, r.Each)
	case command.ReplyFields:
		w.WriteMapLen(len(r.Integers))
		writeNamed(w, r.Names, r.Integers)
	case command.ReplyFieldsEach:
		w.WriteMapLen(len(r.Integers) + 1)
		writeNamed(w, r.Names, r.Integers)
		w.WriteBulk(command.EachField)
		w.WriteLen(len(r.Each))
		writeEach(w, r.Each)
	case command.ReplyRows:
		writeRows(w, r.Rows, r.Names)
	case command.ReplyLeases:
		w.WriteMapLen(5)
		writeNamed(w, r.Names, r.Integers)
		w.WriteBulk(r.Names[2])
		writeRows(w, r.Rows, r.Names[3:5])
		w.WriteBulk(r.Names[5])
		w.WriteInt(int(r.GroupsIn))
		w.WriteBulk(r.Names[6])
		writeRows(w, r.Groups, r.Names[7:])
	}
}

func writeNamed(w *dev.Writer, names []string, integers []int64) {
	for i, n := range integers {
		w.WriteBulk(names[i])
		w.WriteInt(int(n))
	}
}

func writeEach(w *dev.Writer, each [][command.EachFields]int64) {
	for _, limit := range each {
		w.WriteLen(len(limit))
		for _, n := range limit {
			w.WriteInt(int(n))
		}
	}
}

func writeRows(w *dev.Writer, rows []embedded.Row, names []string) {
	w.WriteLen(len(rows))
	for _, row := range rows {
		w.WriteMapLen(1 + len(row.Integers))
		w.WriteBulk(names[0])
		w.WriteBulk(row.Text)
		writeNamed(w, names[1:], row.Integers)
	}
}
