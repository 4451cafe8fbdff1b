// Package lru is a bounded map that forgets what was not used for longest. Package
// auth remembers keys in it, package limit the buckets of clients.
package lru

import "container/list"

// Map is a bounded map. It is not safe for concurrent use.
type Map[K comparable, V any] struct {
	limit   int
	entries map[K]*list.Element
	order   *list.List // of pair, the latest used first
}

type pair[K comparable, V any] struct {
	key   K
	value V
}

// New makes an empty map of at most limit entries.
func New[K comparable, V any](limit int) *Map[K, V] {
	return &Map[K, V]{limit: limit, entries: map[K]*list.Element{}, order: list.New()}
}

// Get returns the value of a key, which is now the latest used.
func (m *Map[K, V]) Get(key K) (V, bool) {
	element, ok := m.entries[key]
	if !ok {
		var none V
		return none, false
	}
	m.order.MoveToFront(element)
	return element.Value.(pair[K, V]).value, true
}

// Put sets the value of a key, and forgets another entry when there are too many.
func (m *Map[K, V]) Put(key K, value V) {
	if element, ok := m.entries[key]; ok {
		element.Value = pair[K, V]{key, value}
		m.order.MoveToFront(element)
		return
	}
	m.entries[key] = m.order.PushFront(pair[K, V]{key, value})
	if m.order.Len() > m.limit {
		m.drop(m.order.Back())
	}
}

// Drop forgets a key.
func (m *Map[K, V]) Drop(key K) {
	if element, ok := m.entries[key]; ok {
		m.drop(element)
	}
}

// DropIf forgets the entries whose value is unwanted.
func (m *Map[K, V]) DropIf(unwanted func(V) bool) {
	for element := m.order.Front(); element != nil; {
		next := element.Next()
		if unwanted(element.Value.(pair[K, V]).value) {
			m.drop(element)
		}
		element = next
	}
}

// Len is how many entries there are.
func (m *Map[K, V]) Len() int { return m.order.Len() }

// Clear forgets everything.
func (m *Map[K, V]) Clear() {
	clear(m.entries)
	m.order.Init()
}

func (m *Map[K, V]) drop(element *list.Element) {
	m.order.Remove(element)
	delete(m.entries, element.Value.(pair[K, V]).key)
}
