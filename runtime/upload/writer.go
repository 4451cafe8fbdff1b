package upload

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"mediastack.dev/runtime/lru"
	"mediastack.dev/runtime/media"
)

// Writer is the registration of a process that stores objects of an account in a bucket before anything is recorded of them. The keys of
// the objects contain its number, so that they are found once the process is dead. It is safe for concurrent use.
type Writer struct {
	// Number identifies the writer, and is never used again.
	Number int64
	fence  atomic.Int64
}

// NewWriter returns a writer that was just registered.
func NewWriter(number int64) *Writer { return &Writer{Number: number} }

// Fence returns what a commit has to name. A Store raises it to reject the commits that name a smaller value.
func (w *Writer) Fence() int64 { return w.fence.Load() }

// RaiseFence records that the fence was raised to at least this value.
func (w *Writer) RaiseFence(fence int64) {
	for known := w.fence.Load(); known < fence && !w.fence.CompareAndSwap(known, fence); known = w.fence.Load() {
	}
}

// ErrWriterEnded is wrapped by the fault of a commit whose writer was ended, because its process did not renew its lease.
var ErrWriterEnded = errors.New("the writer of the object has ended")

// ErrKeyEnded is wrapped by the fault of a commit whose caller's key is not valid anymore.
var ErrKeyEnded = errors.New("the key of the caller has ended")

const (
	// A writer is replaced by a new one when it has this age, and as many uploads: an account's bucket is searched for the objects
	// of a dead process from the first upload of its writer on.
	writerAge     = 10 * time.Minute
	writerUploads = 1000
	// writerIdle is after how long without an upload a process ends its writer.
	writerIdle = time.Hour
	// writerMargin is how much older than a writer the uploads are that it can have: those that were received meanwhile.
	writerMargin = time.Minute
	// fullFor is how long an account whose cap had no room for an upload reserves it before it is stored, and maxFull how many
	// accounts are remembered.
	fullFor = time.Minute
	maxFull = 10_000
)

// bucket is where a writer writes.
type bucket struct {
	accountID uuid.UUID
	name      string
}

// ownWriter is a writer of this process.
type ownWriter struct {
	*Writer
	since      uuid.UUID // ids of its items are not smaller
	registered time.Time

	// Guarded by writers.mu.
	uploads int // in all
	running int // uploads whose objects may have no item yet
	used    time.Time
}

// abandoned is an upload that could not be abandoned: it is tried again.
type abandoned struct {
	writer    *ownWriter
	itemID    uuid.UUID
	scope     media.Scope
	keys      []string
	uncertain bool
}

// writers are the writers of this process. A writer is removed when it is not used anymore and all its objects have an item, or a
// queued removal. It is safe for concurrent use.
type writers struct {
	store   Store
	now     func() time.Time
	flights singleflight.Group

	mu      sync.Mutex
	lease   time.Time // end of the lease of the process, as it knows it; zero = unknown
	current map[bucket]*ownWriter
	retired []*ownWriter // replaced or ended, and not removed
	failed  []abandoned

	full *fullAccounts
}

func newWriters(store Store, now func() time.Time) *writers {
	return &writers{store: store, now: now, current: map[bucket]*ownWriter{}, full: newFullAccounts(now)}
}

// begin returns the writer for the objects of an item, or nil if the upload has to be recorded first: the account has no room, the id
// is older than the writer, or the process has no lease, or has not renewed it in time. The caller calls end once.
func (w *writers) begin(ctx context.Context, scope media.Scope, itemID uuid.UUID) (*ownWriter, error) {
	if w.full.has(scope.AccountID) {
		return nil, nil //nolint:nilnil // no writer is no error
	}
	return w.beginSince(ctx, scope, itemID, firstID(w.now().Add(-writerMargin)))
}

// beginDerivatives is begin for derivatives of an item that may be older than the writer: then that is replaced by one since the item. It
// returns nil if the process has no lease, or has not renewed it in time.
func (w *writers) beginDerivatives(ctx context.Context, scope media.Scope, itemID uuid.UUID) (*ownWriter, error) {
	since := firstID(w.now().Add(-writerMargin))
	if before(itemID, since) {
		since = itemID
	}
	for range maxReplacements {
		w.retireYounger(bucket{scope.AccountID, scope.Bucket}, itemID)
		if found, err := w.beginSince(ctx, scope, itemID, since); found != nil || err != nil {
			return found, err
		}
	}
	return nil, nil //nolint:nilnil // no writer is no error
}

// maxReplacements is how often beginDerivatives replaces a writer: an upload may register a younger one meanwhile.
const maxReplacements = 3

// retireYounger ends the use of a writer that cannot have objects of an item.
func (w *writers) retireYounger(in bucket, itemID uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if current := w.current[in]; current != nil && before(itemID, current.since) {
		w.retire(in)
	}
}

// beginSince returns the writer for the objects of an item, and registers one since an id if there is none that can be used.
func (w *writers) beginSince(ctx context.Context, scope media.Scope, itemID, since uuid.UUID) (*ownWriter, error) {
	in := bucket{scope.AccountID, scope.Bucket}
	if found, register := w.find(in, itemID); !register {
		return found, nil
	}
	_, err, _ := w.flights.Do(in.accountID.String()+in.name, func() (any, error) { return nil, w.register(context.WithoutCancel(ctx), in, since) })
	if err != nil {
		return nil, err
	}
	found, _ := w.find(in, itemID)
	return found, nil
}

// find returns the writer of a bucket. register is set if there is none that can be used.
func (w *writers) find(in bucket, itemID uuid.UUID) (found *ownWriter, register bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if !w.lease.IsZero() && now.After(w.lease) {
		return nil, false // the writers may have been ended
	}
	found = w.current[in]
	switch {
	case found.usedUp(now):
		return nil, true
	case before(itemID, found.since):
		return nil, false
	}
	found.uploads++
	found.running++
	found.used = now
	return found, false
}

// usedUp reports whether there is no writer, or it has to be replaced.
func (o *ownWriter) usedUp(now time.Time) bool {
	return o == nil || o.uploads >= writerUploads && now.Sub(o.registered) >= writerAge
}

// register replaces the writer of a bucket by one since an id, unless another upload has done it meanwhile.
func (w *writers) register(ctx context.Context, in bucket, since uuid.UUID) error {
	now := w.now()
	w.mu.Lock()
	replaced := !w.current[in].usedUp(now)
	w.mu.Unlock()
	if replaced {
		return nil
	}
	registered, err := w.store.RegisterWriter(ctx, in.accountID, in.name, since)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retire(in)
	if registered != nil {
		w.current[in] = &ownWriter{Writer: registered, since: since, registered: now, used: now}
	}
	return nil
}

// retire ends the use of the writer of a bucket. The caller holds w.mu.
func (w *writers) retire(in bucket) {
	if found := w.current[in]; found != nil {
		w.retired = append(w.retired, found)
		delete(w.current, in)
	}
}

// setLease records until when the process has its lease. If it had none before, its writers may have been ended, and are replaced.
func (w *writers) setLease(until time.Time, lapsed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lease = until
	if lapsed {
		for in := range w.current {
			w.retire(in)
		}
	}
}

// use adds a use of a writer that is in use.
func (w *writers) use(of *ownWriter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of.running++
}

// end ends an upload whose objects have an item, or a queued removal.
func (w *writers) end(of *ownWriter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of.running--
}

// drop ends the use of a writer that was ended: the next upload registers another one.
func (w *writers) drop(in bucket, ended *ownWriter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current[in] == ended {
		w.retire(in)
	}
}

// fail keeps an upload that could not be abandoned.
func (w *writers) fail(upload abandoned) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = append(w.failed, upload)
}

// putBack takes back uploads that were not tried again: they are the next ones.
func (w *writers) putBack(untried []abandoned) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = append(untried, w.failed...)
}

// takeFailed returns the uploads that could not be abandoned, to be tried again.
func (w *writers) takeFailed() []abandoned {
	w.mu.Lock()
	defer w.mu.Unlock()
	failed := w.failed
	w.failed = nil
	return failed
}

// removable returns the writers that are not used anymore, and whose objects all have an item or a queued removal. all is set at the end
// of the process: then no writer is used anymore. Those that stay are returned by a later call.
func (w *writers) removable(all bool) []*ownWriter {
	w.mu.Lock()
	defer w.mu.Unlock()
	for in, writer := range w.current {
		if all || writer.running == 0 && w.now().Sub(writer.used) >= writerIdle {
			w.retire(in)
		}
	}
	var settled, rest []*ownWriter
	for _, writer := range w.retired {
		if writer.running == 0 {
			settled = append(settled, writer)
		} else {
			rest = append(rest, writer)
		}
	}
	w.retired = rest
	return settled
}

// keep takes back writers that could not be removed.
func (w *writers) keep(settled []*ownWriter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retired = append(w.retired, settled...)
}

// fullAccounts are accounts whose cap had no room a moment ago. It is safe for concurrent use.
type fullAccounts struct {
	now func() time.Time

	mu    sync.Mutex
	until *lru.Map[uuid.UUID, time.Time] // when that is forgotten
}

func newFullAccounts(now func() time.Time) *fullAccounts {
	return &fullAccounts{now: now, until: lru.New[uuid.UUID, time.Time](maxFull)}
}

// add remembers that the cap of an account had no room.
func (f *fullAccounts) add(accountID uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until.Put(accountID, f.now().Add(fullFor))
}

// has reports whether the cap of an account had no room a moment ago.
func (f *fullAccounts) has(accountID uuid.UUID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	until, ok := f.until.Get(accountID)
	return ok && f.now().Before(until)
}

// before reports whether an id is smaller than another one.
func before(id, other uuid.UUID) bool { return string(id[:]) < string(other[:]) }

// firstID returns an id that is not larger than those that are made from a time on (see package cell).
func firstID(at time.Time) (id uuid.UUID) {
	var milliseconds [8]byte
	binary.BigEndian.PutUint64(milliseconds[:], uint64(at.UnixMilli()))
	copy(id[:6], milliseconds[2:])
	return id
}
