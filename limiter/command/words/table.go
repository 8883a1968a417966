package words

// The grammar as plain data, for hosts in other languages: functions/tables writes it into the function library.

// Row is a word of the vocabulary.
type Row struct {
	Name, Since     string
	Value, Right    string // what follows it, if anything does: its name, and what would be right
	HasUnit, IsName bool   // of what follows it
	Excluded, Owned []string
	With            string
	RatesOnly       bool
}

// Table is what a command may be told behind its key or keys.
type Table struct {
	Kinds, Terms, Options, Required []string
	Repeated                        string
	Slots                           SlotsForm
	Settles                         bool
}

// values are the names of what may follow a word.
var values = map[string]*value{
	"units": &units, "slots": &slots, "rows": &rows, "capacity": &capacity, "duration": &duration, "offset": &offset, "ttl": &ttl,
	"id": &id, "group": &groupName, "priority": &priority, "zone": &zone, "weight": &weight, "quota": &quota, "denials": &denials, "calendar_quota": &calendarQuota,
}

// Rows are the words of the vocabulary, in its order.
func Rows() (rows []Row) {
	for i := range vocabulary {
		w := &vocabulary[i]
		r := Row{Name: w.name, Since: w.since, Excluded: namesOf(w.excluded), Owned: namesOf(w.owned), With: w.with, RatesOnly: w.rates}
		for name, v := range values {
			if v == w.value {
				r.Value = name
			}
		}
		if v := w.value; v != nil {
			r.Right, r.HasUnit, r.IsName = v.right, v.hasUnit, v.isName
		}
		rows = append(rows, r)
	}
	return rows
}

// Table is the syntax as plain data.
func (s *Syntax) Table() Table {
	t := Table{
		Kinds: namesOf(s.kinds), Terms: namesOf(s.terms), Options: namesOf(s.options), Required: namesOf(s.required),
		Slots: s.form, Settles: s.settles,
	}
	if s.repeated != nil {
		t.Repeated = s.repeated.name
	}
	return t
}
