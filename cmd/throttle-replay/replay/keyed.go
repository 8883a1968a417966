package replay

// Keyed is a set whose limits depend on the key, as with policies.
type Keyed struct {
	Name  string
	Words string // what a report says of its limits
	// Of returns the limits of a key.
	Of func(key string) (Choice, error)
}

// Choice is the limits of some keys.
type Choice struct {
	Whose string // what a report calls them
	Words string // as of a Set; "" lets everything through
}

// chooser knows the limits of each client.
type chooser struct {
	Keyed
	sets   []*compiled // that were chosen
	firsts []int       // where the limits of each are among those of all
	chosen []uint32    // for each client, the index of its set
}

// choose finds the limits of each client in the sets that depend on the key.
func (r *run) choose() error {
	for _, c := range r.sets {
		if c.keys == nil {
			continue
		}
		if err := c.choose(r.clients, !r.Cost.IsOne()); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiled) choose(all *clients, costs bool) error {
	k := c.keys
	k.chosen = make([]uint32, all.count)
	known := map[Choice]uint32{}
	for i := range all.count {
		key, isThere := all.keys[i]
		if !isThere { // its place is free
			continue
		}
		choice, err := k.Of(key)
		if err != nil {
			return err
		}
		at, isKnown := known[choice]
		if !isKnown {
			set := &compiled{isNone: true, limits: []string{"NONE"}}
			if choice.Words != "" {
				if set, err = (Set{k.Name, choice.Words}).compile(costs); err != nil {
					return err
				}
			}
			at = uint32(len(k.sets))
			known[choice] = at
			k.sets, k.firsts = append(k.sets, set), append(k.firsts, len(c.limits))
			for _, words := range set.limits {
				c.limits = append(c.limits, choice.Whose+": "+words)
			}
		}
		k.chosen[i] = at
	}
	return nil
}
