package lru

import "testing"

func TestMap_EvictsTheLeastRecentlyUsedEntry(t *testing.T) {
	t.Parallel()
	m := New[int, int](3)
	for i := range 10 {
		m.Put(i, i)
		m.Get(7)
	}
	if _, ok := m.Get(7); !ok || m.Len() != 3 || len(m.entries) != 3 {
		t.Errorf("%d entries, the used one kept: %t", m.Len(), ok)
	}
	m.DeleteFunc(func(v int) bool { return v == 7 })
	if _, ok := m.Get(7); ok || m.Len() != 2 {
		t.Error("an entry that DeleteFunc selects was kept")
	}
	m.Put(9, 1)
	if v, _ := m.Get(9); v != 1 || m.Len() != 2 {
		t.Error("an entry was not replaced")
	}
	m.Delete(9)
	if m.Delete(9); m.Len() != 1 || len(m.entries) != 1 {
		t.Error("a deleted entry stayed, or another was deleted")
	}
	m.Put(10, 2)
	if v, ok := m.DeleteOldest(); !ok || v != 8 || m.Len() != 1 {
		t.Errorf("the oldest entry was %d, %t", v, ok)
	}
	if m.Clear(); m.Len() != 0 || len(m.entries) != 0 {
		t.Error("a cleared map has entries")
	}
	if _, ok := m.DeleteOldest(); ok {
		t.Error("an empty map has an oldest entry")
	}
}
