package lru

import "testing"

func TestTheMapIsBoundedAndKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	m := New[int, int](3)
	for i := range 10 {
		m.Put(i, i)
		m.Get(7)
	}
	if _, ok := m.Get(7); !ok || m.Len() != 3 || len(m.entries) != 3 {
		t.Errorf("%d entries, the used one kept: %t", m.Len(), ok)
	}
	m.DropIf(func(v int) bool { return v == 7 })
	if _, ok := m.Get(7); ok || m.Len() != 2 {
		t.Error("an unwanted entry stayed")
	}
	m.Put(9, 1)
	if v, _ := m.Get(9); v != 1 || m.Len() != 2 {
		t.Error("an entry was not replaced")
	}
	m.Drop(9)
	if m.Drop(9); m.Len() != 1 || len(m.entries) != 1 {
		t.Error("a dropped entry stayed, or another went")
	}
	if m.Clear(); m.Len() != 0 || len(m.entries) != 0 {
		t.Error("a cleared map holds something")
	}
}
