package consistency

import "github.com/google/uuid"

// FindingKind is the kind of an inconsistency.
type FindingKind string

// The kinds of findings.
const (
	// BucketMissing, BucketForeign and BucketUnmarked: the bucket does not exist, its
	// ownership marker names another account, or it has no marker. Nothing in such a bucket
	// is repaired, and the objects of the first two are not compared.
	BucketMissing  FindingKind = "bucket-missing"
	BucketForeign  FindingKind = "bucket-foreign"
	BucketUnmarked FindingKind = "bucket-unmarked"
	// OrphanObject is an object that no item, running upload or queued removal refers to.
	OrphanObject FindingKind = "orphan-object"
	// UnknownAfterRestore is an orphan of before a restore of the database was confirmed: its row
	// may be one that the restore lost. A repair removes it only if Config.RemoveUnknown is set.
	UnknownAfterRestore FindingKind = "unknown-after-restore"
	// OrphanUpload is a multipart upload that no running upload or queued removal refers to.
	OrphanUpload FindingKind = "orphan-multipart-upload"
	// ObjectMissing, ObjectSize and ObjectHash: an object of an item is lost or damaged. A
	// repair drops a derivative from its item; an original needs the attention of an operator.
	ObjectMissing FindingKind = "object-missing"
	ObjectSize    FindingKind = "object-size"
	ObjectHash    FindingKind = "object-hash"
	// ItemBytes: the recorded bytes of an item are not the sum of its objects'.
	ItemBytes FindingKind = "item-bytes"
	// DeletedItemOverdue is a deleted item that the purge has not ended a day after its time was over: it
	// holds bytes of the cap. A repair ends it; the purge removes its objects.
	DeletedItemOverdue FindingKind = "deleted-item-overdue"
	// CounterDrift: a counter differs from a recount.
	CounterDrift FindingKind = "counter-drift"
)

// Finding is one inconsistency; it prints as a line of JSON.
type Finding struct {
	Kind    FindingKind `json:"kind"`
	Account uuid.UUID   `json:"account"`
	Item    string      `json:"item,omitempty"`
	Key     string      `json:"key,omitempty"`
	Bytes   int64       `json:"bytes,omitempty"` // of an orphan
	Detail  string      `json:"detail,omitempty"`
	// Recent findings are younger than the grace period. They may be resolved by the running
	// service, and are not repaired.
	Recent   bool `json:"recent,omitempty"`
	Repaired bool `json:"repaired,omitempty"`
}

// Summary counts what a check read and found.
type Summary struct {
	Accounts int   `json:"accounts"`
	Items    int64 `json:"items"`
	Objects  int64 `json:"objects"`
	Bytes    int64 `json:"bytes"` // of Objects
	// Unmanaged objects have keys that the service never creates, or are older than the marker and
	// have no row: an adopted bucket can hold both. A check does not change them.
	Unmanaged int64 `json:"unmanaged"`
	Uploads   int64 `json:"uploads"`  // running, or waiting for the purge
	Removals  int64 `json:"removals"` // queued
	// Found counts findings by kind, without recent ones.
	Found    map[FindingKind]int64 `json:"found"`
	Recent   int64                 `json:"recent"`
	Repaired int64                 `json:"repaired"`
	// NeedsAttention counts findings that were not repaired.
	NeedsAttention int64 `json:"needsAttention"`
}

// add counts a finding.
func (s *Summary) add(f Finding) {
	switch {
	case f.Recent:
		s.Recent++
		return
	case f.Repaired:
		s.Repaired++
	default:
		s.NeedsAttention++
	}
	s.Found[f.Kind]++
}
