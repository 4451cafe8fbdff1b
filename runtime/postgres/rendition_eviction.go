package postgres

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

const (
	// evictBatch bounds the renditions that one statement ends to make room.
	evictBatch = 2000
	// maxEvictBatches bounds the batches of the transaction that reserves the bytes of an upload. It holds the lock of the
	// account's usage. What needs more of them ends them before (evictAhead).
	maxEvictBatches = 2
	// maxEmptyBatches is after how many batches without a rendition there is none: one that was touched while a statement
	// ran is skipped by it.
	maxEmptyBatches = 3
)

// eviction ends renditions of an account in batches, those first that were not used for the longest time.
type eviction struct {
	accountID uuid.UUID
	readyOnly bool // leaves those that are being made

	usedAt time.Time // of the last one that ended, as id
	id     uuid.UUID
	empty  int // batches without a rendition
}

// next ends as many renditions as are needed for so many bytes, up to a batch, and returns how many have ended, and their
// bytes. The transaction has locked the usage of the account.
func (e *eviction) next(ctx context.Context, q *sqlgen.Queries, needed int64) (n int, freed int64, err error) {
	ended, err := q.EvictRenditions(ctx, sqlgen.EvictRenditionsParams{AccountID: e.accountID, After: e.usedAt, AfterID: e.id, ReadyOnly: e.readyOnly, Batch: evictBatch, Needed: needed})
	if err != nil {
		return 0, 0, err
	}
	if len(ended) == 0 { // from the start again, where another one may have been added meanwhile
		e.empty++
		e.usedAt, e.id = time.Time{}, uuid.Nil
	}
	for _, row := range ended {
		freed += row.Bytes
		if order := row.UsedAt.Compare(e.usedAt); order > 0 || order == 0 && bytes.Compare(row.ID[:], e.id[:]) > 0 {
			e.usedAt, e.id = row.UsedAt, row.ID
		}
	}
	return len(ended), freed, nil
}

// over reports whether no rendition is left that next could end.
func (e *eviction) over() bool { return e.empty >= maxEmptyBatches }

// manyRenditionsError is the error of a transaction that reserves bytes for which more renditions must end than it may end.
type manyRenditionsError struct {
	accountID uuid.UUID
	bytes     int64 // to reserve
}

// Error implements error.
func (e *manyRenditionsError) Error() string {
	return fmt.Sprintf("more than %d renditions must end for %d bytes", maxEvictBatches*evictBatch, e.bytes)
}

// evictAhead ends renditions until the storage cap has room for the bytes that a transaction could not reserve, or
// none is left. Each batch is a transaction: other requests of the account wait for one batch at most, no
// timeout of a statement or a transaction depends on the number of renditions, and what has ended stays so if a later batch
// fails. The transaction that reserves the bytes is tried again after it. It may find less room, since uploads can take it
// meanwhile; each of them makes fewer renditions possible, so that this ends.
func (s Pictures) evictAhead(ctx context.Context, many *manyRenditionsError) error {
	e := eviction{accountID: many.accountID}
	for enough := false; !enough && !e.over(); {
		ended := 0
		err := s.inTx(ctx, "end renditions for an upload", func(q *sqlgen.Queries) error {
			if _, err := q.LockUsage(ctx, many.accountID); err != nil {
				return err
			}
			room, err := q.Room(ctx, many.accountID)
			if err != nil {
				return err
			}
			short := many.bytes - room.Free
			if enough = short <= 0 || room.RenditionBytes == 0 || short > room.RenditionBytes+room.Deleted; !enough {
				ended, _, err = e.next(ctx, q, short)
			}
			return err
		})
		if err != nil {
			return err
		}
		s.evicted.WithLabelValues(forUpload).Add(float64(ended))
	}
	return nil
}

// evict ends renditions of an account until so many bytes are free, or none is left, and returns how many bytes are.
// renditionBytes is what the account has of them, and reserved what the transaction is to reserve.
func (r *reservation) evict(ctx context.Context, accountID uuid.UUID, short, renditionBytes, reserved int64) (freed int64, err error) {
	e := eviction{accountID: accountID}
	for batches := 0; freed < min(short, renditionBytes) && !e.over(); {
		if batches == maxEvictBatches {
			return freed, &manyRenditionsError{accountID, reserved}
		}
		ended, more, err := e.next(ctx, r.Queries, short-freed)
		if err != nil {
			return freed, err
		}
		if ended > 0 {
			batches++
		}
		freed += more
		r.evicted += ended
	}
	return freed, nil
}
