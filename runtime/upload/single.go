package upload

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

// singlePhase is how far a Single has come.
type singlePhase int

const (
	singleReceiving singlePhase = iota // Begin has returned
	singleReceived                     // Receive has read the whole file
	singleFailed                       // Receive or Commit failed
	singleCommitted                    // the draft exists
	singleClosed                       // everything is released
)

// Single is a file that arrives in one request. The caller calls Begin, Receive and
// Commit, and Close in any case:
//
//	Begin --> receiving --Receive--> received --Commit--> committed
//	              |                     |                     |
//	              '------- error -------'----> failed         |
//	                                             |            |
//	                         Close: abandoned <--'            '--> Close: released
//
// A file of up to MaxSinglePut is sent to neither PostgreSQL nor S3 before Commit, so that an
// invalid request changes nothing. Commit stores it, and records it with one statement. A larger one is
// recorded, reserved under the cap and sent part by part while it arrives. A Single is not safe for concurrent use.
type Single struct {
	*transfer
	phase singlePhase
	// keyID is the key of the caller that Commit looks at, and check is how it finds out why a key has ended; nil = it does not look.
	keyID uuid.UUID
	check func() error
	// idChosen is set if another process may upload a file of the same item: only a recorded upload excludes it.
	idChosen bool
	// commitUncertain is set when it is not known whether the item was committed.
	commitUncertain bool
}

// Begin acquires an upload slot for a file of at least sizeHint bytes (0 = unknown). It
// rejects early what can't succeed: TooLarge, QuotaExceeded, Busy, and Unavailable while the
// account does not own its bucket.
func (s *Service) Begin(ctx context.Context, p account.Principal, sizeHint int64) (*Single, error) {
	return s.BeginWith(ctx, p, nil, sizeHint)
}

// BeginWith is Begin within a capability, which restricts the file and sets fields of it; nil = none.
func (s *Service) BeginWith(ctx context.Context, p account.Principal, capability *Capability, sizeHint int64) (*Single, error) {
	id, err := s.deps.Store.Cell().NewID()
	if err != nil {
		return nil, err
	}
	return s.begin(ctx, p, id, capability, sizeHint)
}

// BeginItem is Begin for a caller that chooses the id of the item. The id must be of the
// installation's cell, and new.
func (s *Service) BeginItem(ctx context.Context, p account.Principal, id uuid.UUID, sizeHint int64) (*Single, error) {
	u, err := s.begin(ctx, p, id, nil, sizeHint)
	if err == nil {
		u.idChosen = true
	}
	return u, err
}

func (s *Service) begin(ctx context.Context, p account.Principal, id uuid.UUID, capability *Capability, sizeHint int64) (*Single, error) {
	scope := media.ScopeOf(p)
	if err := cmp.Or(s.checkAccount(p.Account, sizeHint), capability.checkSize(sizeHint)); err != nil {
		return nil, err
	}
	if sizeHint > MaxSinglePut {
		usage, err := s.deps.Items.Usage(ctx, p)
		if err != nil {
			return nil, notStored(err)
		}
		if sizeHint > usage.MaxStorage-usage.Used {
			return nil, QuotaExceeded(usage.MaxStorage)
		}
	}
	if err := s.checkImages(ctx, scope.AccountID); err != nil {
		return nil, err
	}
	u := &Single{transfer: s.newTransfer(p.Account, s.newReservation(id, scope), sizeHint, partSizeFor(p.Account.MaxUploadSize, maxParts))}
	u.capability, u.reservation.capability = capability, capability
	if err := u.acquireUploadSlot(ctx); err != nil {
		return nil, err
	}
	return u, nil
}

// checkAccount returns a fault if the account can't store a file of this size.
func (s *Service) checkAccount(a account.Account, size int64) error {
	if !a.BucketOwned {
		return fault.New(fault.Unavailable, "the account's bucket is not ready for uploads")
	}
	if err := media.CheckWritable(s.deps.Objects); err != nil {
		return err
	}
	if size > a.MaxUploadSize {
		return tooLarge(a)
	}
	return nil
}

// OnSlow registers how to abort a read of the file from another goroutine. abort may be
// called more than once, and is never called after Receive has returned.
func (u *Single) OnSlow(abort func(why error)) { u.rate.abort = abort }

// CheckAtCommit lets Commit check the credential of the caller, of this key: the statement that makes the draft looks at the key. check
// returns why the credential is not valid anymore; it is called in the place of that statement where another one makes the draft.
func (u *Single) CheckAtCommit(keyID uuid.UUID, check func() error) { u.keyID, u.check = keyID, check }

// errPhase is a bug of the caller.
var errPhase = errors.New("the upload is in another phase")

// Receive reads the file to its end. declaredType is the type that the client declared.
// After an error the upload can only be closed.
func (u *Single) Receive(ctx context.Context, file io.Reader, declaredType string) error {
	if u.phase != singleReceiving {
		return errPhase
	}
	u.phase = singleFailed
	defer u.startRateMonitor()()
	for {
		u.setNext(u.partSize)
		most := u.partSize
		if u.multipart == nil && u.sizeHint <= MaxSinglePut {
			most = MaxSinglePut
		}
		ended, err := u.fill(ctx, file, most, func() error { return u.classify(ctx, declaredType, false) })
		if err == nil {
			err = u.classify(ctx, declaredType, ended)
		}
		if err != nil {
			return notStored(err)
		}
		u.readHead()
		if ended {
			u.phase = singleReceived
			return nil
		}
		if err := u.reserveSize(ctx); err != nil {
			return notStored(err)
		}
		if u.multipart == nil {
			if err := u.startMultipart(ctx); err != nil {
				return err
			}
		}
		if err := u.beginPart(ctx, u.partSize); err != nil {
			return err
		}
	}
}

// DeclareType sets the type that the client declared, if it is known only after the file.
// It has no effect on a file of which a part has been sent.
func (u *Single) DeclareType(mimeType string) {
	if u.inMemory() {
		u.mimeType = sniff(u.buffer.head(sniffLength), u.capability.declaredType(mimeType))
	}
}

// Commit stores what is left of the file, and its derivatives, and makes the draft. When
// it returns nil, the draft and its bytes are durable. Fields out of bounds change nothing.
func (u *Single) Commit(ctx context.Context, fields media.Fields) (media.Item, error) {
	if u.phase != singleReceived {
		return media.Item{}, errPhase
	}
	fields, err := u.capability.Apply(fields)
	if err != nil {
		return media.Item{}, err
	}
	if err := fields.Validate(); err != nil {
		return media.Item{}, err
	}
	u.phase = singleFailed
	release, err := u.service.deps.Store.SpendBytes(ctx, u.scope, u.size)
	if err != nil {
		return media.Item{}, err
	}
	defer func() {
		if u.phase != singleCommitted && !u.commitUncertain {
			release(ctx)
		}
	}()
	if err := u.store(ctx); err != nil {
		return media.Item{}, err
	}
	derivatives, err := u.derive(ctx)
	if err != nil {
		return media.Item{}, notStored(err)
	}
	item := u.capability.complete(u.item(fields.WithDefaults(), append(media.Objects{u.original()}, derivatives...)))
	if err := u.record(ctx, item); err != nil {
		return media.Item{}, notStored(err)
	}
	u.phase = singleCommitted
	u.service.draftMade(singleUpload, item)
	return item, nil
}

// store stores what is left of the file. One that is in memory is stored first and recorded with its item, if there is a writer for it;
// others are recorded and reserved first.
func (u *Single) store(ctx context.Context) (err error) {
	if u.inMemory() && !u.reservation.opened && !u.capability.recordedFirst() && !u.idChosen {
		if u.writer, err = u.service.writers.begin(ctx, u.scope, u.id); err != nil {
			return notStored(err)
		}
	}
	if u.writer != nil {
		return u.orEnded(u.putWhole(ctx)) // an account that was erased meanwhile has no bucket
	}
	if u.check != nil {
		if err := u.check(); err != nil {
			return err
		}
	}
	if err := u.reservation.reserve(ctx, u.size); err != nil {
		return notStored(err)
	}
	if u.inMemory() {
		return u.putWhole(ctx)
	}
	if err := u.sendRest(ctx); err != nil {
		return err
	}
	return u.completeMultipart(ctx)
}

// orEnded returns an error, or why the credential of the caller is not valid anymore.
func (u *Single) orEnded(err error) error {
	if err == nil || u.check == nil {
		return err
	}
	return cmp.Or(u.check(), err)
}

// record makes the item of the objects that are stored.
func (u *Single) record(ctx context.Context, item media.Item) error {
	if u.writer == nil {
		return u.service.deps.Store.CommitUpload(ctx, item, u.scope.Actor)
	}
	err := u.service.deps.Store.CommitStored(ctx, item, u.scope.Actor, u.writer.Writer, u.keyID)
	switch {
	case errors.Is(err, ErrKeyEnded):
		return u.orEnded(err)
	case fault.Is(err, fault.QuotaExceeded):
		u.service.writers.full.add(u.scope.AccountID)
	case errors.Is(err, ErrWriterEnded):
		u.service.writers.drop(bucket{u.scope.AccountID, u.scope.Bucket}, u.writer)
	default:
		u.commitUncertain = err != nil
	}
	return err
}

// abandonTimeout bounds the clean-up after a failed upload. The purge does the rest when
// the lease has ended.
const abandonTimeout = 30 * time.Second

// Close releases the slots and the memory of the upload. One that was not committed is
// abandoned: its reservation is released and what reached S3 is removed.
func (u *Single) Close(ctx context.Context) {
	_ = u.awaitPart() // writeFailed records an error
	switch {
	case u.phase == singleClosed:
	case u.writer != nil:
		u.closeWriter(ctx)
	case u.reservation.opened && u.phase != singleCommitted:
		u.abandon(ctx)
	}
	u.phase = singleClosed
	u.close()
}

// closeWriter ends the use of the writer. What an upload that was not committed has stored is removed, now or when the database
// responds again.
func (u *Single) closeWriter(ctx context.Context) {
	if u.phase == singleCommitted || len(u.writtenKeys) == 0 {
		u.service.writers.end(u.writer)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	of := abandoned{writer: u.writer, itemID: u.id, scope: u.scope, keys: u.writtenKeys, uncertain: u.commitUncertain}
	removal, err := u.service.abandonStored(ctx, of)
	if err != nil {
		u.service.deps.Log.WarnContext(ctx, "cleanup deferred to the next heartbeat", "stage", "abandon upload", "item", u.id, "error", err)
		return
	}
	u.remove(ctx, removal)
}

// abandon ends an upload that is recorded.
func (u *Single) abandon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	removal, err := u.service.deps.Store.AbandonUpload(ctx, u.id, u.scope, u.writtenKeys, u.service.deps.Now().Add(media.RemovalGrace))
	if err != nil {
		u.service.deps.Log.WarnContext(ctx, "cleanup deferred to purge", "stage", "abandon upload", "item", u.id, "error", err)
		return
	}
	u.remove(ctx, removal)
}

// remove removes what the upload has stored; nil = nothing.
func (u *Single) remove(ctx context.Context, removal *media.Removal) {
	switch {
	case removal == nil:
	case u.writeUncertain:
		// Space is freed now. The removal stays queued, so that the purge repeats it when no
		// write can be in flight any more.
		u.service.deps.Items.TryRemoval(ctx, *removal)
	default:
		u.service.deps.Items.RemoveNow(ctx, *removal)
	}
}
