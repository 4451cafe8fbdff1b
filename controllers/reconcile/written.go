package reconcile

import (
	"encoding/json"
	"hash/maphash"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Written holds what the operator wrote last into the status of each object: a checksum, so that a
// status that another client wrote is corrected at once and the operator's own writes cause no
// reconcile, and the resource version, so that nothing is computed from a cache that is behind. It is
// safe for concurrent use. A nil *Written holds nothing.
type Written struct {
	seed maphash.Seed
	mu   sync.Mutex
	last map[types.UID]written
}

type written struct {
	sum     uint64
	version string // empty before the first write of this process
}

// NewWritten returns a Written that holds nothing.
func NewWritten() *Written { return &Written{seed: maphash.MakeSeed(), last: map[types.UID]written{}} }

// writing is called before a status is written.
func (w *Written) writing(uid types.UID, status any) {
	if w == nil {
		return
	}
	sum := w.sum(status)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[uid] = written{sum, w.last[uid].version}
}

// wrote is called after a status was written, with the object as the API server has it.
func (w *Written) wrote(object client.Object) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[object.GetUID()] = written{w.last[object.GetUID()].sum, object.GetResourceVersion()}
}

// isBehind reports whether the object was read before the operator wrote its status.
func (w *Written) isBehind(object client.Object) bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), w.last[object.GetUID()].version)
	return err == nil && order < 0
}

// Forget removes an object that is gone.
func (w *Written) Forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, uid)
}

func (w *Written) sum(status any) uint64 {
	text, err := json.Marshal(status)
	if err != nil {
		panic(err) // the API server accepts JSON only
	}
	return maphash.Bytes(w.seed, text)
}

// ForeignStatus selects the updates after which an object has a status that the operator did not
// write. statusOf returns the whole status of an object.
func (w *Written) ForeignStatus(statusOf func(client.Object) any) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			w.mu.Lock()
			own, known := w.last[e.ObjectNew.GetUID()]
			w.mu.Unlock()
			return known && e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion() && w.sum(statusOf(e.ObjectNew)) != own.sum
		},
	}
}
