package mediaaccount

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// memory keeps when each account's slow looks are due. It only saves calls: with an
// empty one, after a restart or a change of leader, everything is looked at once.
type memory struct {
	mu    sync.Mutex
	slots map[types.UID]slot
}

type slot struct {
	bucket    string
	bucketDue time.Time
	usageDue  time.Time
	drained   int64
}

func newMemory() *memory { return &memory{slots: map[types.UID]slot{}} }

// bucketDue is when the bucket has to be looked at; zero when it was not seen to be fine.
func (m *memory) bucketDue(uid types.UID, bucket string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.slots[uid]; known.bucket == bucket {
		return known.bucketDue
	}
	return time.Time{}
}

// sawBucket notes that the bucket is fine.
func (m *memory) sawBucket(uid types.UID, bucket string, due time.Time) {
	m.change(uid, func(s *slot) { s.bucket, s.bucketDue = bucket, due })
}

// doubtBucket notes that the bucket may not be fine.
func (m *memory) doubtBucket(uid types.UID) {
	m.change(uid, func(s *slot) { s.bucketDue = time.Time{} })
}

// usageDue is when the usage has to be measured.
func (m *memory) usageDue(uid types.UID) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.slots[uid].usageDue
}

// measuredUsage notes when the usage has to be measured again.
func (m *memory) measuredUsage(uid types.UID, due time.Time) {
	m.change(uid, func(s *slot) { s.usageDue = due })
}

// drained adds to the objects that were removed from a bucket and gives the sum.
func (m *memory) drained(uid types.UID, more int64) (total int64) {
	m.change(uid, func(s *slot) { s.drained += more; total = s.drained })
	return total
}

// forget drops an account that is gone.
func (m *memory) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.slots, uid)
}

func (m *memory) change(uid types.UID, change func(*slot)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.slots[uid]
	change(&s)
	m.slots[uid] = s
}
