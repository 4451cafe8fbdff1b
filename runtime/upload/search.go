package upload

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/cell"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/work"
)

// SearchWork is the kind of the tasks that search buckets for the objects of dead processes. A task is of an account, whose id is its
// key, and exists while writers of the account have ended that were not searched for.
const SearchWork work.Kind = "unrecorded_objects"

const (
	// searchGrace is how long after the end of a writer a bucket is searched: what a dead process has sent to the object store may
	// still be stored, and a process on a copy of the database, to which all others seem to be dead, is on hold by then.
	searchGrace = 5 * time.Minute
	// searchSlots is how many buckets a process searches at once, and searchBatch how many objects it looks up at once.
	searchSlots = 2
	searchBatch = 500
	// searchTimeout bounds one attempt. It lists what was stored since the first upload of a writer.
	searchTimeout = 30 * time.Minute
	// searchInterval is about how often a process looks for dead ones.
	searchInterval = 10 * time.Second
)

// EndedWriter is a writer whose process is dead. No upload of it is committed anymore.
type EndedWriter struct {
	Number int64
	Bucket string
	// Since: ids of its items are not smaller.
	Since uuid.UUID
	// KeepObjects is set for a writer of before a restore: an object without an item may be of one that the restore lost.
	KeepObjects bool
}

// SearchStore is where a Searcher finds the writers of dead processes. Package postgres implements it.
type SearchStore interface {
	// EnqueueSearches ends the writers of dead processes, adds a task of SearchWork for each account with writers that have
	// ended, due when that is grace ago, and returns how many were added.
	EnqueueSearches(ctx context.Context, grace time.Duration) (int, error)
	// EndedWriters returns the writers of an account that have ended for at least grace.
	EndedWriters(ctx context.Context, accountID uuid.UUID, grace time.Duration) ([]EndedWriter, error)
	// QueueUnrecorded queues the removal of those objects of ended writers that have no item, and returns how many they are.
	QueueUnrecorded(ctx context.Context, accountID uuid.UUID, bucket string, keys []string) (int, error)
	// ForgetWriters deletes writers that have ended.
	ForgetWriters(ctx context.Context, accountID uuid.UUID, numbers []int64) error
}

// SearchDeps are the dependencies of a Searcher.
type SearchDeps struct {
	Store SearchStore
	// Objects lists the objects of a bucket whose keys begin with prefix and are larger than after.
	Objects interface {
		ListAfter(ctx context.Context, bucket, prefix, after string, visit func(media.ObjectInfo) error) error
	}
	Guard media.Guard
	// Ready returns an error while nothing can be removed.
	Ready func() error
	Log   *slog.Logger
}

// Searcher finds the objects that dead processes have stored and not recorded, and queues their removal. It is the worker of SearchWork.
type Searcher struct{ deps SearchDeps }

// NewSearcher returns a Searcher that uses deps.
func NewSearcher(deps SearchDeps) *Searcher { return &Searcher{deps} }

// Policy returns how the tasks run.
func (s *Searcher) Policy() work.Policy {
	return work.Policy{
		Slots: searchSlots, Timeout: searchTimeout, Leased: true, Interrupt: true, CheckInterval: searchInterval, MinBackoff: 5 * time.Second, MaxBackoff: 10 * time.Minute,
		Ready: s.deps.Ready, Enqueue: func(ctx context.Context) (int, error) { return s.deps.Store.EnqueueSearches(ctx, searchGrace) },
	}
}

// Work searches the buckets of an account for the objects of its ended writers.
func (s *Searcher) Work(ctx context.Context, task work.Task) error {
	ended, err := s.deps.Store.EndedWriters(ctx, task.AccountID, searchGrace)
	if err != nil {
		return err
	}
	for _, writers := range byBucket(ended) {
		if err := s.search(ctx, task.AccountID, writers); err != nil {
			return err
		}
	}
	return nil
}

// byBucket returns the writers of each bucket.
func byBucket(ended []EndedWriter) (buckets [][]EndedWriter) {
	for len(ended) > 0 {
		n := 1
		for n < len(ended) && ended[n].Bucket == ended[0].Bucket {
			n++
		}
		buckets, ended = append(buckets, ended[:n:n]), ended[n:]
	}
	return buckets
}

// search searches one bucket for the objects of writers, and then forgets the writers.
func (s *Searcher) search(ctx context.Context, accountID uuid.UUID, ended []EndedWriter) error {
	numbers := make([]int64, len(ended))
	since := map[int64]uuid.UUID{} // of those to search for
	var first uuid.UUID
	for i, writer := range ended {
		numbers[i] = writer.Number
		if writer.KeepObjects {
			continue
		}
		if len(since) == 0 || before(writer.Since, first) {
			first = writer.Since
		}
		since[writer.Number] = writer.Since
	}
	if len(since) > 0 {
		_, err := s.deps.Guard.CheckBucket(ctx, installation.Bucket{AccountID: accountID, Name: ended[0].Bucket})
		if err == nil {
			err = s.queueUnrecorded(ctx, accountID, ended[0].Bucket, first, since)
		}
		if err != nil && !errors.Is(err, installation.ErrNoBucket) { // it is gone, with everything in it
			return err
		}
	}
	return s.deps.Store.ForgetWriters(ctx, accountID, numbers)
}

// queueUnrecorded queues the removal of what writers have stored and not recorded. The ids of their items are not smaller than since.
func (s *Searcher) queueUnrecorded(ctx context.Context, accountID uuid.UUID, bucket string, first uuid.UUID, since map[int64]uuid.UUID) error {
	var keys []string
	queued := 0
	flush := func() error {
		if len(keys) == 0 {
			return nil
		}
		n, err := s.deps.Store.QueueUnrecorded(ctx, accountID, bucket, keys)
		queued, keys = queued+n, slices.Delete(keys, 0, len(keys))
		return err
	}
	err := s.deps.Objects.ListAfter(ctx, bucket, media.KeyPrefix, media.KeyPrefix+first.String(), func(o media.ObjectInfo) error {
		itemID, number, ok := media.WriterOfKey(o.Key)
		if from, of := since[number]; !ok || !of || before(itemID, from) {
			return nil
		}
		if _, made := cell.OfID(itemID); !made {
			return nil // of another service that used the bucket before
		}
		if keys = append(keys, o.Key); len(keys) < searchBatch {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if queued > 0 {
		s.deps.Log.WarnContext(ctx, "objects of a process that died are removed", "account", accountID, "bucket", bucket, "objects", queued)
	}
	return err
}
