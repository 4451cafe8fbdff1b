package mediaaccount

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// objects is what is remembered of each object. It is in memory and saves calls only.
type objects struct {
	mu      sync.Mutex
	entries map[types.UID]objectEntry
}

type objectEntry struct {
	namespaceUID string
	measure      bool // the next reconcile measures the usage
}

func newObjects() *objects { return &objects{entries: map[types.UID]objectEntry{}} }

// NamespaceUID returns the UID of the object's namespace; empty when it was not read yet.
func (o *objects) NamespaceUID(uid types.UID) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.entries[uid].namespaceUID
}

// NamespaceRead records the UID of the object's namespace, which never changes.
func (o *objects) NamespaceRead(uid types.UID, namespaceUID string) {
	o.update(uid, func(e *objectEntry) { e.namespaceUID = namespaceUID })
}

// MeasureNext makes the next reconcile measure the usage.
func (o *objects) MeasureNext(uid types.UID) {
	o.update(uid, func(e *objectEntry) { e.measure = true })
}

// Measures reports whether a measurement was requested.
func (o *objects) Measures(uid types.UID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.entries[uid].measure
}

// Measured ends the request of a measurement.
func (o *objects) Measured(uid types.UID) { o.update(uid, func(e *objectEntry) { e.measure = false }) }

// Delete removes the entry of an object that is gone.
func (o *objects) Delete(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.entries, uid)
}

func (o *objects) update(uid types.UID, update func(*objectEntry)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	entry := o.entries[uid]
	update(&entry)
	if entry == (objectEntry{}) {
		delete(o.entries, uid)
		return
	}
	o.entries[uid] = entry
}
