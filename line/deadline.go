package line

// deadline is an entry's place in the heap of its line, in which the one whose time is over first is the root. The heap is a pairing
// heap that runs through the entries, so it takes no memory of its own, and an entry that leaves is found at once.
type deadline struct {
	deadlineNs             int64 // on the monotonic clock; 0 outside of the heap
	child, sibling, parent *entry
}

// meld makes one heap of two.
func meld(a, b *entry) *entry {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	if b.deadlineNs < a.deadlineNs {
		a, b = b, a
	}
	b.parent, b.sibling = a, a.child
	if a.child != nil {
		a.child.parent = b
	}
	a.child = b
	return a
}

// withdraw takes e out of a heap, if it is in it.
func withdraw(root, e *entry) *entry {
	if e.deadlineNs == 0 {
		return root
	}
	if e.parent != nil {
		if e.parent.child == e {
			e.parent.child = e.sibling
		} else {
			e.parent.sibling = e.sibling
		}
		if e.sibling != nil {
			e.sibling.parent = e.parent
		}
	}
	rest := pairUp(e.child)
	isRoot := root == e
	e.deadline = deadline{}
	if isRoot {
		return rest
	}
	return meld(root, rest)
}

// pairUp makes one heap of siblings: of two at a time from the front, and of those from the back.
func pairUp(siblings *entry) (heap *entry) {
	var pairs *entry
	for siblings != nil {
		a, b := siblings, siblings.sibling
		siblings = nil
		if b != nil {
			siblings = b.sibling
			b.sibling, b.parent = nil, nil
		}
		a.sibling, a.parent = nil, nil
		pair := meld(a, b)
		pair.sibling, pairs = pairs, pair
	}
	for pairs != nil {
		pair := pairs
		pairs, pair.sibling = pair.sibling, nil
		heap = meld(heap, pair)
	}
	return heap
}
