package media

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// uploadPhase is how far an Upload has come.
type uploadPhase int

const (
	uploadReceiving uploadPhase = iota // Begin has returned
	uploadReceived                     // Receive has read the whole file
	uploadFailed                       // Receive or Commit failed
	uploadCommitted                    // the draft exists
	uploadClosed                       // everything is released
)

// Upload is a file that arrives in one request. The caller calls Begin, Receive and
// Commit, and Close in any case:
//
//	Begin --> receiving --Receive--> received --Commit--> committed
//	              |                     |                     |
//	              '------- error -------'----> failed         |
//	                                             |            |
//	                         Close: abandoned <--'            '--> Close: released
//
// A file of up to MaxSinglePut is sent to neither PostgreSQL nor S3 before Commit, so that an
// invalid request changes nothing. A larger one is recorded, reserved under the cap and
// sent part by part while it arrives. An Upload is not safe for concurrent use.
type Upload struct {
	*transfer
	phase uploadPhase
}

// Begin acquires an upload slot for a file of at least sizeHint bytes (0 = unknown). It
// rejects early what can't succeed: TooLarge, QuotaExceeded, Busy, and Unavailable while the
// account does not own its bucket.
func (s *Service) Begin(ctx context.Context, p account.Principal, sizeHint int64) (*Upload, error) {
	return s.BeginWith(ctx, p, nil, sizeHint)
}

// BeginWith is Begin within a capability, which restricts the file and sets fields of it; nil = none.
func (s *Service) BeginWith(ctx context.Context, p account.Principal, capability *Capability, sizeHint int64) (*Upload, error) {
	id, err := s.store.Cell().NewID()
	if err != nil {
		return nil, err
	}
	return s.begin(ctx, p, id, capability, sizeHint)
}

// BeginItem is Begin for a caller that chooses the id of the item. The id must be of the
// installation's cell, and new.
func (s *Service) BeginItem(ctx context.Context, p account.Principal, id uuid.UUID, sizeHint int64) (*Upload, error) {
	return s.begin(ctx, p, id, nil, sizeHint)
}

func (s *Service) begin(ctx context.Context, p account.Principal, id uuid.UUID, capability *Capability, sizeHint int64) (*Upload, error) {
	scope := ScopeOf(p)
	if err := cmp.Or(s.checkAccount(p.Account, sizeHint), capability.checkSize(sizeHint)); err != nil {
		return nil, err
	}
	if sizeHint > MaxSinglePut {
		available, maxStorage, err := s.store.AvailableBytes(ctx, scope)
		if err != nil {
			return nil, notStored(err)
		}
		if sizeHint > available {
			return nil, QuotaExceeded(maxStorage)
		}
	}
	if s.deriver != nil {
		if err := s.deriver.CheckAdmission(scope.AccountID); err != nil {
			return nil, err
		}
	}
	u := &Upload{transfer: s.newTransfer(p.Account, s.newReservation(id, scope), sizeHint, partSizeFor(p.Account.MaxUploadSize, maxParts))}
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
	if err := s.checkWritable(); err != nil {
		return err
	}
	if size > a.MaxUploadSize {
		return tooLarge(a)
	}
	return nil
}

// OnSlow registers how to abort a read of the file from another goroutine. abort may be
// called more than once, and is never called after Receive has returned.
func (u *Upload) OnSlow(abort func(why error)) { u.rate.abort = abort }

// errPhase is a bug of the caller.
var errPhase = errors.New("the upload is in another phase")

// Receive reads the file to its end. declaredType is the type that the client declared.
// After an error the upload can only be closed.
func (u *Upload) Receive(ctx context.Context, file io.Reader, declaredType string) error {
	if u.phase != uploadReceiving {
		return errPhase
	}
	u.phase = uploadFailed
	defer u.startRateMonitor()()
	for {
		next := u.partSize
		if u.multipart == nil && u.sizeHint <= MaxSinglePut {
			next = MaxSinglePut
		}
		ended, err := u.fill(ctx, file, next, func() error { return u.classify(declaredType, false) })
		if err == nil {
			err = u.classify(declaredType, ended)
		}
		if err != nil {
			return notStored(err)
		}
		u.readHead()
		if ended {
			u.phase = uploadReceived
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
func (u *Upload) DeclareType(mimeType string) {
	if u.inMemory() {
		u.mimeType = sniff(u.buffer.head(sniffLength), u.capability.declaredType(mimeType))
	}
}

// Commit stores what is left of the file, and its derivatives, and makes the draft. When
// it returns nil, the draft and its bytes are durable. Fields out of bounds change nothing.
func (u *Upload) Commit(ctx context.Context, fields Fields) (Item, error) {
	if u.phase != uploadReceived {
		return Item{}, errPhase
	}
	fields, err := u.capability.Apply(fields)
	if err != nil {
		return Item{}, err
	}
	if err := fields.Validate(); err != nil {
		return Item{}, err
	}
	u.phase = uploadFailed
	if err := u.reservation.reserve(ctx, u.size); err != nil {
		return Item{}, notStored(err)
	}
	if u.inMemory() {
		if err := u.putWhole(ctx); err != nil {
			return Item{}, err
		}
	} else {
		if err := u.sendRest(ctx); err != nil {
			return Item{}, err
		}
		if err := u.completeMultipart(ctx); err != nil {
			return Item{}, err
		}
	}
	derivatives, err := u.derive(ctx)
	if err != nil {
		return Item{}, notStored(err)
	}
	item := u.capability.complete(u.item(fields.withDefaults(), append(Objects{u.original()}, derivatives...)))
	if err := u.service.store.CommitUpload(ctx, item); err != nil {
		return Item{}, notStored(err)
	}
	u.phase = uploadCommitted
	u.service.metrics.countDraft(singleUpload, item)
	return item, nil
}

// abandonTimeout bounds the clean-up after a failed upload. The purge does the rest when
// the lease has ended.
const abandonTimeout = 30 * time.Second

// Close releases the slots and the memory of the upload. One that was not committed is
// abandoned: its reservation is released and what reached S3 is removed.
func (u *Upload) Close(ctx context.Context) {
	_ = u.awaitPart() // writeFailed records an error
	if u.reservation.opened && u.phase != uploadCommitted && u.phase != uploadClosed {
		u.abandon(ctx)
	}
	u.phase = uploadClosed
	u.close()
}

func (u *Upload) abandon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	removal, err := u.service.store.AbandonUpload(ctx, u.id, u.scope, u.writtenKeys, u.service.now().Add(removalGrace))
	if err != nil {
		u.service.log.WarnContext(ctx, "cleanup deferred to purge", "stage", "abandon upload", "item", u.id, "error", err)
		return
	}
	switch {
	case removal == nil:
	case u.writeUncertain:
		// Space is freed now. The removal stays queued, so that the purge repeats it when no
		// write can be in flight any more.
		u.service.tryRemoval(ctx, *removal)
	default:
		u.service.removeNow(ctx, *removal)
	}
}
