package mediaaccount

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// schedule records when the periodic checks of each account are due. It is in memory and
// saves calls only: after a restart or a change of leader every check runs once.
type schedule struct {
	mu      sync.Mutex
	entries map[types.UID]scheduleEntry
}

type scheduleEntry struct {
	bucket    string
	bucketDue time.Time
	usageDue  time.Time
	measured  int64 // the generation of the spec at the last measurement

	namespaceUID string
}

func newSchedule() *schedule { return &schedule{entries: map[types.UID]scheduleEntry{}} }

// NextBucketCheck returns when to check the bucket; zero when it was not checked yet or the
// last check failed.
func (s *schedule) NextBucketCheck(uid types.UID, bucket string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if entry := s.entries[uid]; entry.bucket == bucket {
		return entry.bucketDue
	}
	return time.Time{}
}

// BucketChecked records that the bucket is as it should be, and when to check it next.
func (s *schedule) BucketChecked(uid types.UID, bucket string, next time.Time) {
	s.update(uid, func(e *scheduleEntry) { e.bucket, e.bucketDue = bucket, next })
}

// InvalidateBucket makes the next reconcile check the bucket.
func (s *schedule) InvalidateBucket(uid types.UID) {
	s.update(uid, func(e *scheduleEntry) { e.bucketDue = time.Time{} })
}

// NextUsageMeasurement returns when to measure the usage; zero when it was not measured yet for
// this generation of the spec.
func (s *schedule) NextUsageMeasurement(uid types.UID, generation int64) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if entry := s.entries[uid]; entry.measured == generation {
		return entry.usageDue
	}
	return time.Time{}
}

// UsageMeasured records when to measure the usage next.
func (s *schedule) UsageMeasured(uid types.UID, generation int64, next time.Time) {
	s.update(uid, func(e *scheduleEntry) { e.usageDue, e.measured = next, generation })
}

// NamespaceUID returns the UID of the object's namespace; empty when it was not read yet.
func (s *schedule) NamespaceUID(uid types.UID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[uid].namespaceUID
}

// NamespaceRead records the UID of the object's namespace, which never changes.
func (s *schedule) NamespaceRead(uid types.UID, namespaceUID string) {
	s.update(uid, func(e *scheduleEntry) { e.namespaceUID = namespaceUID })
}

// Delete removes the entry of an account that is gone.
func (s *schedule) Delete(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, uid)
}

func (s *schedule) update(uid types.UID, update func(*scheduleEntry)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := s.entries[uid]
	update(&entry)
	s.entries[uid] = entry
}
