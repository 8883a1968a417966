package replay

import (
	"context"
	"errors"
	"fmt"
	"os"

	"redis-throttle/cmd/throttle-replay/fields"
	"redis-throttle/cmd/throttle-replay/logs"
)

// Lines is what became of the lines of a log.
type Lines struct {
	All        int64     `json:"all"`       // without empty ones and those that name columns
	Requests   int64     `json:"requests"`  // that limits were tried on
	Filtered   int64     `json:"filtered"`  // by --where
	Keyless    int64     `json:"keyless"`   // lack a field of the key: no limit applies to them
	NoAddress  int64     `json:"noAddress"` // have no address where the key asks for one, and are left out
	NoCost     int64     `json:"noCost"`    // the field of --cost has no number
	Late       int64     `json:"late"`      // were out of order by more than --late
	Chapters   int64     `json:"chapters"`  // no lines, but how often the log goes back in time, as files in another order do
	Unreadable []Problem `json:"unreadable"`
	Damaged    []Damage  `json:"damaged"`
}

// Problem is why lines could not be read.
type Problem struct {
	Why   string `json:"why"`
	Count int64  `json:"count"`
	File  string `json:"file"` // where the first of them is
	Line  int64  `json:"line"`
	Text  string `json:"text,omitempty"` // its beginning, if keys are shown
}

// Damage is a file that could not be read to its end.
type Damage struct {
	File string `json:"file"`
	Line int64  `json:"line"` // the last that was read
	Why  string `json:"why"`
}

// stream is one file on its way.
type stream struct {
	*run
	path  string
	first int64 // when its first request came, 0 if that is not known

	file   *logs.File
	lines  *logs.Lines
	layout logs.Layout
	record logs.Record
	key    *fields.BoundKey
	where  fields.BoundWhere
	cost   fields.BoundCost
	asks   []func(*logs.Record) any // of gateways
	marks  *marks
	room   []byte

	next event
	err  error
}

// start opens the file and finds out how it is read.
func (s *stream) start(ctx context.Context) (err error) {
	if s.file, err = logs.Open(ctx, s.path); err != nil {
		return err
	}
	s.lines = logs.NewLines(logs.Objects(s.file))
	start := s.lines.Start()
	if s.layout, err = logs.New(s.Log, start); err != nil {
		if errors.Is(err, logs.ErrUnknown) && len(start) == 0 { // an empty file has no format
			return nil
		}
		return fmt.Errorf("%s: %w", s.path, err)
	}
	s.lines.Join = logs.IsCSV(s.layout)
	return nil
}

// open begins to read the file.
func (s *stream) open(ctx context.Context) (err error) {
	if err := s.start(ctx); err != nil || s.layout == nil {
		return err
	}
	if s.key, err = s.Key.Bind(s.layout); err == nil {
		if s.where, err = s.Where.Bind(s.layout); err == nil {
			s.cost, err = s.Cost.Bind(s.layout)
		}
	}
	if err == nil {
		s.marks, err = s.newMarks(s.layout)
	}
	for i := 0; err == nil && i < len(s.gateways); i++ {
		var ask func(*logs.Record) any
		ask, err = s.gateways[i].Bind(s.layout)
		s.asks = append(s.asks, ask)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	return nil
}

// peek returns when the first request of the file came.
func (s *stream) peek(ctx context.Context) (ns int64, err error) {
	defer s.close()
	if err := s.start(ctx); err != nil || s.layout == nil {
		return 0, err
	}
	for range 1000 {
		line, err := s.lines.Next()
		if errors.Is(err, logs.TooLong) {
			continue
		}
		if err != nil {
			break
		}
		if s.layout.Parse(line, &s.record) == nil {
			return s.record.TimeNs, nil
		}
	}
	return 0, nil
}

func (s *stream) close() {
	if s.file != nil {
		s.file.Close()
	}
}

// advance reads the next request. It is false at the end of the file.
func (s *stream) advance() bool {
	if s.layout == nil {
		return false
	}
	for {
		line, err := s.lines.Next()
		if err != nil && !errors.Is(err, logs.TooLong) {
			s.err = err
			return false
		}
		if len(line) == 0 && err == nil {
			continue
		}
		if err == nil {
			err = s.layout.Parse(line, &s.record)
		}
		if s.seen++; s.seen-s.told >= tellEvery {
			s.tell()
		}
		if err != nil {
			s.unreadable(err, line)
			continue
		}
		s.count.All++
		if s.take() {
			return true
		}
	}
}

// take makes an event of the record, if it counts.
func (s *stream) take() bool {
	if !s.where.Holds(&s.record) {
		s.count.Filtered++
		return false
	}
	cost, ok := s.cost.Of(&s.record)
	if !ok {
		s.count.NoCost++
		return false
	}
	key, ok := s.key.Append(s.room[:0], &s.record)
	s.room = key
	if !ok {
		s.count.Keyless++
		return false
	}
	if s.key.NoAddress {
		if s.count.NoAddress++; s.count.NoAddress == 1 {
			s.wrong = fmt.Sprintf("%s:%d has %q", s.path, s.lines.Number(), s.key.Wrong[:min(len(s.key.Wrong), 40)])
		}
		return false
	}
	s.next = event{ns: s.record.TimeNs, cost: cost, client: s.find(key)}
	if s.next.client != nobody {
		s.marks.note(s.clients.at(s.next.client), &s.record)
	}
	if len(s.asks) > 0 {
		s.next.requests = make([]any, len(s.asks))
		for i, ask := range s.asks {
			s.next.requests[i] = ask(&s.record)
		}
	}
	return true
}

// unreadable counts a line that could not be read.
func (s *stream) unreadable(err error, line []byte) {
	if errors.Is(err, logs.Head) {
		return
	}
	s.count.All++
	for i := range s.count.Unreadable {
		if p := &s.count.Unreadable[i]; p.Why == err.Error() {
			p.Count++
			return
		}
	}
	p := Problem{Why: err.Error(), Count: 1, File: s.path, Line: s.lines.Number()}
	if s.ShowKeys {
		p.Text = string(line[:min(len(line), 100)])
	}
	s.count.Unreadable = append(s.count.Unreadable, p)
}

// sizeOf is the length of a file, 0 if that is not known.
func sizeOf(path string) int64 {
	if path == logs.Stdin {
		return 0
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}
