package line

// deadline is an entry's place in the heap of its line, in which the one whose time is over first is the root. The heap
// is a skew heap that runs through the entries, so it takes no memory of its own, and an entry that leaves is found at
// once.
type deadline struct {
	deadlineNs int64 // on the monotonic clock; 0 outside of the heap
	parent     *entry
	children   [2]*entry
}

// meld makes one heap of two. It goes down the second children, and makes them the first ones on its way, which keeps
// that way short.
func meld(a, b *entry) (root *entry) {
	at, parent := &root, (*entry)(nil)
	for b != nil {
		if a == nil || b.deadlineNs < a.deadlineNs {
			a, b = b, a
		}
		*at, a.parent, parent = a, parent, a
		rest := a.children[1]
		at, a.children[1] = &a.children[0], a.children[0]
		a = rest
	}
	if *at = a; a != nil {
		a.parent = parent
	}
	return root
}

// withdraw takes e out of a heap, if it is in it.
func withdraw(root, e *entry) *entry {
	if e.deadlineNs == 0 {
		return root
	}
	rest := meld(e.children[0], e.children[1])
	switch p := e.parent; {
	case p == nil:
		root = rest
	case p.children[0] == e:
		p.children[0] = rest
	default:
		p.children[1] = rest
	}
	if rest != nil {
		rest.parent = e.parent
	}
	e.deadline = deadline{}
	return root
}
