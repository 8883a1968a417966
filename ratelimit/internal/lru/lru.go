// Package lru is a map of bounded size: what was used least recently goes first.
package lru

import "container/list"

// Map holds a bounded number of values. It is not safe for concurrent use.
type Map[K comparable, V any] struct {
	most    int
	recent  *list.List // of entry; the most recently used in front
	entries map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// New returns a Map of at most most values, and of at least one.
func New[K comparable, V any](most int) *Map[K, V] {
	return &Map[K, V]{most: max(most, 1), recent: list.New(), entries: make(map[K]*list.Element)}
}

// Get returns the value of key, and makes it the most recently used one.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	element, ok := m.entries[key]
	if !ok {
		return value, false
	}
	m.recent.MoveToFront(element)
	return element.Value.(entry[K, V]).value, true
}

// Put makes value that of key. It removes the least recently used one when there are too many, and returns it.
func (m *Map[K, V]) Put(key K, value V) (removed V, ok bool) {
	if element, ok := m.entries[key]; ok {
		element.Value = entry[K, V]{key, value}
		m.recent.MoveToFront(element)
		return removed, false
	}
	if len(m.entries) == m.most {
		oldest := m.recent.Back().Value.(entry[K, V])
		m.Delete(oldest.key)
		removed, ok = oldest.value, true
	}
	m.entries[key] = m.recent.PushFront(entry[K, V]{key, value})
	return removed, ok
}

// Delete removes key, if it is there.
func (m *Map[K, V]) Delete(key K) {
	if element, ok := m.entries[key]; ok {
		m.recent.Remove(element)
		delete(m.entries, key)
	}
}

// Len is the number of values.
func (m *Map[K, V]) Len() int { return len(m.entries) }
