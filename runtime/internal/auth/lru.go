package auth

import "container/list"

// lru is a bounded map that forgets what was not used for longest. It is not safe
// for concurrent use.
type lru[K comparable, V any] struct {
	limit   int
	entries map[K]*list.Element
	order   *list.List // of pair, the latest used first
}

type pair[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](limit int) *lru[K, V] {
	return &lru[K, V]{limit: limit, entries: map[K]*list.Element{}, order: list.New()}
}

func (l *lru[K, V]) get(key K) (V, bool) {
	element, ok := l.entries[key]
	if !ok {
		var none V
		return none, false
	}
	l.order.MoveToFront(element)
	return element.Value.(pair[K, V]).value, true
}

func (l *lru[K, V]) put(key K, value V) {
	if element, ok := l.entries[key]; ok {
		element.Value = pair[K, V]{key, value}
		l.order.MoveToFront(element)
		return
	}
	l.entries[key] = l.order.PushFront(pair[K, V]{key, value})
	if l.order.Len() > l.limit {
		l.drop(l.order.Back())
	}
}

func (l *lru[K, V]) dropIf(unwanted func(V) bool) {
	for element := l.order.Front(); element != nil; {
		next := element.Next()
		if unwanted(element.Value.(pair[K, V]).value) {
			l.drop(element)
		}
		element = next
	}
}

func (l *lru[K, V]) clear() {
	clear(l.entries)
	l.order.Init()
}

func (l *lru[K, V]) drop(element *list.Element) {
	l.order.Remove(element)
	delete(l.entries, element.Value.(pair[K, V]).key)
}
