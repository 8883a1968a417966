package linearizability

// callFunctions has half of the calls be calls of functions, on servers that have them beside the module. A function
// cannot make its caller wait and sees no line, in which it would overtake: so a key with leases has functions or a
// line, as alone says of each.
func (l *load) callFunctions(alone func() bool) {
	l.functions = true
	for _, s := range l.subjects {
		if leases := leasesOf(s); leases != nil {
			leases.noLine = alone()
		}
	}
}

// leasesOf is nil for a subject without leases.
func leasesOf(s subject) *leased {
	switch s := s.(type) {
	case *leased:
		return s
	case *admitted:
		return s.running
	}
	return nil
}

// isFunction says whether a function does the same as a call.
func isFunction(c *call) bool {
	leases := leasesOf(c.of)
	return c.wait == nil && c.words[0] != "CL.WAIT" && (leases == nil || leases.noLine)
}
