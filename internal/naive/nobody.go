package naive

// nobody is a limit of 0 units, of any kind: there is nothing to take, to wait for, to charge or to keep.
type nobody struct{}

func (nobody) capacity() number             { return zero }
func (nobody) left(number) number           { return zero }
func (nobody) wait(_, _ number) number      { return zero } // asked for no more than capacity
func (nobody) fullIn(number) number         { return zero }
func (nobody) charge(_, _, _ number) number { return zero }
func (nobody) punish(_, _, _ number) number { return zero }
func (nobody) refund(_, _ number) number    { return zero }
func (nobody) outOfReach(number) bool       { return false }
func (nobody) bringTo(number)               {}
func (nobody) clone() state                 { return nobody{} }
