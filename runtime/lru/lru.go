// Package lru implements a bounded map that evicts the least recently used entry. Packages
// rendition, auth, itemcache, ratelimit and oauthhttp use it for their caches and buckets.
package lru

import "container/list"

// Map is a bounded map. It is not safe for concurrent use.
type Map[K comparable, V any] struct {
	limit   int
	entries map[K]*list.Element
	order   *list.List // of pair, the most recently used first
}

type pair[K comparable, V any] struct {
	key   K
	value V
}

// New returns an empty map of at most limit entries.
func New[K comparable, V any](limit int) *Map[K, V] {
	return &Map[K, V]{limit: limit, entries: map[K]*list.Element{}, order: list.New()}
}

// Get returns the value of a key, and marks it as the most recently used.
func (m *Map[K, V]) Get(key K) (V, bool) {
	element, ok := m.entries[key]
	if !ok {
		var zero V
		return zero, false
	}
	m.order.MoveToFront(element)
	return element.Value.(pair[K, V]).value, true
}

// Put sets the value of a key, and evicts the least recently used entry if there are too
// many.
func (m *Map[K, V]) Put(key K, value V) {
	if element, ok := m.entries[key]; ok {
		element.Value = pair[K, V]{key, value}
		m.order.MoveToFront(element)
		return
	}
	m.entries[key] = m.order.PushFront(pair[K, V]{key, value})
	if m.order.Len() > m.limit {
		m.remove(m.order.Back())
	}
}

// Delete removes a key.
func (m *Map[K, V]) Delete(key K) {
	if element, ok := m.entries[key]; ok {
		m.remove(element)
	}
}

// DeleteOldest removes the least recently used entry and returns its value; false if there is none.
func (m *Map[K, V]) DeleteOldest() (V, bool) {
	oldest := m.order.Back()
	if oldest == nil {
		var zero V
		return zero, false
	}
	m.remove(oldest)
	return oldest.Value.(pair[K, V]).value, true
}

// DeleteFunc removes the entries for whose value del returns true.
func (m *Map[K, V]) DeleteFunc(del func(V) bool) {
	for element := m.order.Front(); element != nil; {
		next := element.Next()
		if del(element.Value.(pair[K, V]).value) {
			m.remove(element)
		}
		element = next
	}
}

// Len returns the number of entries.
func (m *Map[K, V]) Len() int { return m.order.Len() }

// Clear removes all entries.
func (m *Map[K, V]) Clear() {
	clear(m.entries)
	m.order.Init()
}

func (m *Map[K, V]) remove(element *list.Element) {
	m.order.Remove(element)
	delete(m.entries, element.Value.(pair[K, V]).key)
}
