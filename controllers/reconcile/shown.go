package reconcile

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Shown has the version of the rows that the status of each object shows, so that the operator's own
// changes in PostgreSQL cause no reconcile, and those of others that were made at the same time do: the
// version is of the snapshot that the status was computed from. It is safe for concurrent use.
type Shown struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]shown
}

type shown struct {
	version int64 // 0 = unknown
	running bool
}

// NewShown returns a Shown that knows no object.
func NewShown() *Shown { return &Shown{objects: map[types.NamespacedName]shown{}} }

// Begin is called before a reconcile reads anything.
func (s *Shown) Begin(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = shown{s.objects[key].version, true}
}

// End is called after a reconcile, with the version that the status shows; 0 if it shows none.
func (s *Shown) End(key types.NamespacedName, version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version == 0 {
		delete(s.objects, key)
		return
	}
	s.objects[key] = shown{version: version}
}

// Shows reports whether the status of an object shows a version, and whether a reconcile is under way, which
// may show it when it ends.
func (s *Shown) Shows(key types.NamespacedName, version int64) (shows, running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.objects[key]
	return last.version == version && version != 0 && !last.running, last.running
}
