package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/upload"
)

// RegisterWriter implements upload.Store.
func (s Uploads) RegisterWriter(ctx context.Context, accountID uuid.UUID, bucket string, since uuid.UUID) (*upload.Writer, error) {
	number, err := s.queries.RegisterWriter(ctx, sqlgen.RegisterWriterParams{InstanceID: s.own(), AccountID: accountID, Bucket: bucket, Since: since})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // no writer is no error
	}
	if err != nil {
		return nil, toFault(err, "register a writer")
	}
	return upload.NewWriter(number), nil
}

// RemoveWriters implements upload.Store.
func (s Uploads) RemoveWriters(ctx context.Context, numbers []int64) error {
	return toFault(s.queries.RemoveWriters(ctx, sqlgen.RemoveWritersParams{Numbers: numbers, Own: s.own()}), "remove writers")
}

// storedFile is an item whose objects a writer has stored.
type storedFile struct {
	item   draft
	writer *upload.Writer
	keyID  uuid.UUID // zero = none is looked at
	// fence is that of the writer, as the process knows it.
	fence int64
}

func (f storedFile) account() uuid.UUID { return f.item.AccountID }

// maxCommits is how often a commit is tried that names a fence which was raised meanwhile.
const maxCommits = 5

// CommitStored implements upload.Store. A commit whose answer was lost is not tried again if there is no item: it may have been executed,
// and the item deleted since, with its objects.
func (s Uploads) CommitStored(ctx context.Context, item media.Item, by account.Actor, writer *upload.Writer, keyID uuid.UUID) error {
	ctx = s.db.withRetryDeadline(ctx)
	var err error
	for range maxCommits {
		if err = s.commitStored(ctx, storedFile{draft{item, by}, writer, keyID, writer.Fence()}); !errors.Is(err, errFenceRaised) {
			break
		}
	}
	if err == nil || !isUncertain(err) {
		return toFault(err, "commit upload")
	}
	if committed, cause := s.resolveCommit(ctx, item.ID, item.Objects[0].Key, writer); !committed {
		return toFault(errors.Join(err, cause), "commit upload")
	}
	return nil
}

// errFenceRaised is the error of a commit that names a fence that is not that of its writer anymore.
var errFenceRaised = fault.Wrap(errors.New("the fence of the writer was raised"), fault.Unavailable, "the file could not be recorded: try again")

// commitStored commits once, with other files, or alone if that is not possible.
func (s Uploads) commitStored(ctx context.Context, file storedFile) error {
	committed, err := s.storedBatch.Do(ctx, file)
	if committed || err != nil {
		return err
	}
	return s.reserve(ctx, "commit upload", func(r *reservation) error { return r.commitStored(ctx, s, file) })
}

// commitStoredFiles commits a batch of any accounts.
func (s Uploads) commitStoredFiles(ctx context.Context, lockTimeout time.Duration, files []storedFile) ([]bool, error) {
	items := make([]draft, len(files))
	for i, file := range files {
		items[i] = file.item
	}
	columns, err := commitParams(lockTimeout, items)
	if err != nil {
		return nil, err
	}
	params := sqlgen.CommitStoredParams{LockTimeout: columns.LockTimeout, Own: s.own(), Ids: columns.Ids, FileNames: columns.FileNames, Accesses: columns.Accesses,
		Captions: columns.Captions, Groups: columns.Groups, Objects: columns.Objects, Bytes: columns.Bytes, CreatedAt: columns.CreatedAt,
		Metadata: columns.Metadata, Widths: columns.Widths, Heights: columns.Heights, Placeholders: columns.Placeholders,
		DominantColors: columns.DominantColors, Refs: columns.Refs, Durations: columns.Durations, Pages: columns.Pages, Derivatives: columns.Derivatives, Gates: columns.Gates, Captures: columns.Captures, Actors: columns.Actors}
	for _, file := range files {
		params.AccountIds = append(params.AccountIds, file.item.AccountID)
		params.AppIds = append(params.AppIds, file.item.AppID)
		params.Writers = append(params.Writers, file.writer.Number)
		params.Fences = append(params.Fences, file.fence)
		params.KeyIds = append(params.KeyIds, file.keyID)
	}
	committed, err := s.queries.CommitStored(ctx, params)
	return contains(params.Ids, committed), err
}

// commitStored commits one file, for which it makes room.
func (r *reservation) commitStored(ctx context.Context, s Uploads, file storedFile) error {
	fence, err := r.LockWriter(ctx, sqlgen.LockWriterParams{Number: file.writer.Number, Own: s.own(), AccountID: file.item.AccountID})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errWriterEnded
	case err != nil:
		return err
	case fence != file.fence:
		file.writer.RaiseFence(fence)
		return errFenceRaised
	}
	item := file.item
	request := openRequest{itemID: item.ID, accountID: item.AccountID, appID: item.AppID, bytes: item.Objects.Bytes(), leaseEnds: time.Now()}
	if err := r.openWithin(ctx, s.ofProcess(openParams(noLockTimeout, []openRequest{request})), media.Scope{}, nil); err != nil {
		return err
	}
	if file.keyID != uuid.Nil { // now that nothing has to be waited for
		switch valid, err := r.KeyIsValid(ctx, file.keyID); {
		case err != nil:
			return err
		case !valid:
			return errKeyEnded
		}
	}
	return r.commitAdjusted(ctx, item)
}

// errWriterEnded is the error for a file whose writer another process has ended: its objects may be removed at any time.
var errWriterEnded = fault.Wrap(upload.ErrWriterEnded, fault.Unavailable, "the upload was ended because the service did not respond in time: try again")

// errKeyEnded is the error for a file whose key has ended. The caller finds out why.
var errKeyEnded = fault.Wrap(upload.ErrKeyEnded, fault.Unauthenticated, "the credential has ended")

// isUncertain reports whether a commit that failed with err may have been executed, or may still be.
func isUncertain(err error) bool {
	var server *pgconn.PgError
	switch {
	case errors.As(err, &server):
		return isLost(err) // a server that shuts down may have committed before it says so
	case isUnsent(err):
		return false
	}
	return isDisconnected(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

const (
	// fenceTimeout is how long the request of an upload waits for the commits of its writer that run, and abandonLockTimeout how long the
	// clean-up does, which may be of many writers.
	fenceTimeout       = 5 * time.Second
	abandonLockTimeout = 250 * time.Millisecond
)

// resolveCommit finds out whether an item has the object with a key, which a writer has stored. If not, no commit that was sent before can
// be executed anymore.
func (s Uploads) resolveCommit(ctx context.Context, itemID uuid.UUID, key string, writer *upload.Writer) (committed bool, err error) {
	return repeat(ctx, s.Store, uuid.Nil, func(ctx context.Context) (committed bool, err error) {
		err = s.whileFenced(ctx, itemID, key, writer, fenceTimeout, func(_ *sqlgen.Queries, exists bool) error {
			committed = exists
			return nil
		})
		return committed, err
	})
}

// whileFenced raises the fence of a writer, and then looks whether an item has the object with a key, and calls do in the same transaction.
// A writer that has ended rejects all commits.
func (s Uploads) whileFenced(ctx context.Context, itemID uuid.UUID, key string, writer *upload.Writer, lockTimeout time.Duration, do func(q *sqlgen.Queries, exists bool) error) error {
	var fence int64
	err := s.inTx(ctx, "resolve a commit", func(q *sqlgen.Queries) (err error) {
		fence, err = q.RaiseFence(ctx, sqlgen.RaiseFenceParams{LockTimeout: milliseconds(lockTimeout), Number: writer.Number, Own: s.own()})
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		exists, err := q.ItemHasObject(ctx, sqlgen.ItemHasObjectParams{ID: itemID, Key: key})
		if err != nil {
			return err
		}
		return do(q, exists)
	})
	if err == nil { // otherwise the row may have the former value
		writer.RaiseFence(fence)
	}
	return err
}

// AbandonStored implements upload.Store.
func (s Uploads) AbandonStored(ctx context.Context, itemID uuid.UUID, scope media.Scope, writer *upload.Writer, uncertain bool, keys []string, notBefore time.Time) (removal *media.Removal, err error) {
	queue := func(q *sqlgen.Queries, exists bool) error {
		if exists {
			return nil
		}
		id, err := q.QueueRemoval(ctx, sqlgen.QueueRemovalParams{AccountID: scope.AccountID, Bucket: scope.Bucket, Keys: keys, NotBefore: notBefore})
		removal = &media.Removal{ID: id, Bucket: scope.Bucket, Keys: keys}
		return err
	}
	var first string // one commit has them all, or none
	if len(keys) > 0 {
		first = keys[0]
	}
	if uncertain {
		err = s.whileFenced(ctx, itemID, first, writer, abandonLockTimeout, queue)
	} else {
		err = toFault(queue(s.queries, false), "abandon upload")
	}
	if err != nil {
		return nil, err
	}
	return removal, nil
}

// writerBatch is how many writers one statement ends.
const writerBatch = 1000

// EnqueueSearches implements upload.SearchStore.
func (s Uploads) EnqueueSearches(ctx context.Context, grace time.Duration) (int, error) {
	if err := s.queries.EndWriters(ctx, sqlgen.EndWritersParams{Own: s.own(), Batch: writerBatch}); err != nil {
		return 0, toFault(err, "end the writers of dead processes")
	}
	added, err := s.queries.EnqueueSearches(ctx, sqlgen.EnqueueSearchesParams{Kind: string(upload.SearchWork), Grace: grace.Microseconds()})
	return int(added), toFault(err, "add tasks for the writers of dead processes")
}

// EndedWriters implements upload.SearchStore.
func (s Uploads) EndedWriters(ctx context.Context, accountID uuid.UUID, grace time.Duration) ([]upload.EndedWriter, error) {
	rows, err := s.queries.EndedWriters(ctx, sqlgen.EndedWritersParams{AccountID: accountID, Grace: grace.Microseconds()})
	writers := make([]upload.EndedWriter, len(rows))
	for i, row := range rows {
		writers[i] = upload.EndedWriter(row)
	}
	return writers, toFault(err, "find the writers of dead processes")
}

// QueueUnrecorded implements upload.SearchStore.
func (s Uploads) QueueUnrecorded(ctx context.Context, accountID uuid.UUID, bucket string, keys []string) (int, error) {
	params := sqlgen.QueueUnrecordedParams{AccountID: accountID, Bucket: bucket, Keys: keys, ItemIds: make([]uuid.UUID, len(keys))}
	for i, key := range keys {
		params.ItemIds[i], _, _ = media.WriterOfKey(key)
	}
	queued, err := s.queries.QueueUnrecorded(ctx, params)
	objects := 0
	for _, of := range queued {
		objects += len(of)
	}
	return objects, toFault(err, "queue the removal of objects without an item")
}

// ForgetWriters implements upload.SearchStore.
func (s Uploads) ForgetWriters(ctx context.Context, accountID uuid.UUID, numbers []int64) error {
	return toFault(s.queries.ForgetWriters(ctx, sqlgen.ForgetWritersParams{AccountID: accountID, Numbers: numbers}), "forget the writers of dead processes")
}
