package mediaaccount

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namespaceReadFor is for how long the read of a namespace holds: one that is deleted meanwhile rejects the
// Secrets of its new accounts.
const namespaceReadFor = 10 * time.Second

// namespaces shares the reads of namespaces among new accounts. A read holds for the objects that the cache
// had when it began: an object that was created later may be of another namespace of that name.
type namespaces struct {
	now func() time.Time

	mu     sync.Mutex
	newest string // the highest resource version of a MediaAccount that the cache had
	reads  map[string]namespaceRead
}

type namespaceRead struct {
	uid, newest string
	at          time.Time
}

func newNamespaces(now func() time.Time) *namespaces {
	return &namespaces{now: now, reads: map[string]namespaceRead{}}
}

// Saw is called for each MediaAccount that the cache has received.
func (n *namespaces) Saw(object any) {
	received, ok := object.(client.Object)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if order, err := resourceversion.CompareResourceVersion(received.GetResourceVersion(), n.newest); n.newest == "" || err == nil && order > 0 {
		n.newest = received.GetResourceVersion()
	}
}

// Find returns the UID of the namespace of an object, if a read holds for the object.
func (n *namespaces) Find(object client.Object) (uid string, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	read := n.reads[object.GetNamespace()]
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), read.newest)
	return read.uid, err == nil && order <= 0 && n.now().Sub(read.at) < namespaceReadFor
}

// Begin is called before a namespace is read, and the returned function with the UID of one that is not
// being deleted.
func (n *namespaces) Begin(name string) (learn func(uid string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	newest, at := n.newest, n.now()
	return func(uid string) {
		n.mu.Lock()
		defer n.mu.Unlock()
		maps.DeleteFunc(n.reads, func(_ string, read namespaceRead) bool { return at.Sub(read.at) >= namespaceReadFor })
		n.reads[name] = namespaceRead{uid: uid, newest: newest, at: at}
	}
}
