package embedded

// memory keeps the keys of a Host without a Store.
type memory struct {
	keys map[name]*Key
	// sweepAt is the number of keys at which those whose time is over are deleted.
	sweepAt int
}

func (m *memory) get(n name) *Key {
	if key, ok := m.keys[n]; ok {
		return key
	}
	return &Key{}
}

func (m *memory) put(n name, key *Key, nowNs int64) {
	if !key.Exists() {
		delete(m.keys, n)
		return
	}
	if m.keys == nil {
		m.keys = map[name]*Key{}
	}
	m.keys[n] = key
	if len(m.keys) > m.sweepAt {
		m.sweep(nowNs)
	}
}

// sweep deletes the keys whose time is over. It runs each time that the number of keys has doubled, so its cost is
// spread over the calls that added them.
func (m *memory) sweep(nowNs int64) {
	for n, key := range m.keys {
		if key.Expire(nowNs); !key.Exists() {
			delete(m.keys, n)
		}
	}
	m.sweepAt = max(2*len(m.keys), 1024)
}

// Len is the number of keys in the Host's own memory, those whose time is over but that nobody has looked at since
// included.
func (h *Host) Len() int { return len(h.memory.keys) }
