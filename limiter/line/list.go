package line

// list is entries or groups in order. It runs through what is in it, so it takes no memory of its own.
type list[T any, P linked[T]] struct {
	first, last *T
	count       int64
}

type links[T any] struct{ previous, next *T }

type linked[T any] interface {
	*T
	linksOf() *links[T]
}

func (s *list[T, P]) append(x *T) {
	*P(x).linksOf() = links[T]{previous: s.last}
	if s.last != nil {
		P(s.last).linksOf().next = x
	} else {
		s.first = x
	}
	s.last = x
	s.count++
}

func (s *list[T, P]) remove(x *T) {
	of := P(x).linksOf()
	if of.previous != nil {
		P(of.previous).linksOf().next = of.next
	} else {
		s.first = of.next
	}
	if of.next != nil {
		P(of.next).linksOf().previous = of.previous
	} else {
		s.last = of.previous
	}
	*of = links[T]{}
	s.count--
}
