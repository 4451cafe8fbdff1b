package rendition

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/media"
)

const (
	// A job that waits for another process looks after minWait, and then after pauses that double up to maxWait.
	minWait = 25 * time.Millisecond
	maxWait = 500 * time.Millisecond
	// leaseMargin is how much longer the lease of a claim lasts than the job: it covers the statement that ends the job.
	leaseMargin = 30 * time.Second
	// endTimeout bounds the statements that end a job after its context has ended.
	endTimeout = 10 * time.Second
)

// job finds or makes one rendition.
type job struct {
	*Service
	flight   *flight
	ref      Ref
	item     media.Item
	original media.Object
	owner    media.Owner
	request  Request
	admitted bool
	// again makes the rendition without asking the database, which has it: its object is missing, and nothing may be written.
	again bool
}

// notAdmitted is the error of a job that its request may not begin. Other requests that wait for it may begin theirs.
type notAdmitted struct{ error }

func (e notAdmitted) Unwrap() error { return e.error }

// admit asks once whether the request may begin a job.
func (j *job) admit() error {
	if j.request.Admit != nil && !j.admitted {
		if err := j.request.Admit(); err != nil {
			return notAdmitted{err}
		}
	}
	j.admitted = true
	return nil
}

// run returns the rendition, and where it came from.
func (j *job) run(ctx context.Context) (Result, string, error) {
	if j.again {
		result, _, err := j.claimAndMake(ctx)
		return result, fromJob, err
	}
	for pause := minWait; ; pause = min(2*pause, maxWait) {
		stored, state, err := j.deps.Store.FindRendition(ctx, j.item.AccountID, j.ref)
		if err != nil {
			return Result{}, "", err
		}
		if state == Ready {
			j.keep(j.ref, stored)
			return stored.Result, fromDatabase, nil
		}
		if state == Absent {
			result, made, err := j.claimAndMake(ctx)
			if made || err != nil {
				return result, fromJob, err
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return Result{}, "", ctx.Err()
		}
	}
}

// claimAndMake makes the rendition, unless another process does.
func (j *job) claimAndMake(ctx context.Context) (result Result, made bool, err error) {
	if j.deps.Renderer == nil || !j.deps.Renderer.Handles(j.original.MimeType, j.original.Bytes) {
		err := fault.New(fault.UnsupportedType, "no picture can be made of this file")
		j.remember(j.ref, j.request.Recipe.Format, err)
		return Result{}, false, err
	}
	if format := j.request.Recipe.Format; !j.deps.Renderer.Encodes(format) {
		err := fault.Wrap(media.ErrOtherFormat, fault.UnsupportedType, "pictures cannot be made as %s here", format)
		j.remember(j.ref, format, err)
		return Result{}, false, err
	}
	if err := cmp.Or(j.itemFailure(Ref{ItemID: j.item.ID}), j.itemFailure(formatRef(j.item.ID, j.request.Recipe.Format))); err != nil {
		return Result{}, false, err
	}
	slot, err := j.deps.Renderer.ReserveRender(j.item.AccountID)
	if err != nil {
		return Result{}, false, err
	}
	defer slot.Release()
	if err := j.admit(); err != nil {
		return Result{}, false, err
	}
	free, err := j.acquireDataSlot(ctx, j.item.AccountID)
	if err != nil {
		return Result{}, false, err
	}
	defer func() {
		if err != nil || !made || result.Stored() {
			free()
		} else if release, kept := j.unstored.put(j.ref, j.item.AccountID, result); kept {
			j.flight.free = release
			free() // its data are in that memory
		} else {
			j.flight.free = free // after the last response
			j.flight.contended = func() bool { return j.dataSlots.HasWaiters(j.item.AccountID) }
		}
	}()
	if j.again || j.held() {
		j.metrics.keepNot(notWritable)
		result, err = j.render(ctx, slot)
		return result, err == nil, err
	}
	id, err := j.deps.NewID()
	if err != nil {
		return Result{}, false, err
	}
	claim := Claim{ID: id, Ref: j.ref, AccountID: j.item.AccountID, Preset: j.request.Preset, RecipeID: j.request.Recipe.ID(media.EncoderVersion), Lease: j.cfg.Timeout + leaseMargin}
	claimed, err := claimRendition(ctx, j.deps.Store, claim)
	if err != nil {
		j.abandon(ctx, claim) // it may have succeeded
		return Result{}, false, err
	}
	if !claimed {
		return Result{}, false, nil
	}
	started := time.Now()
	result, err = j.render(ctx, slot)
	if err != nil {
		return Result{}, false, j.failed(ctx, claim, err)
	}
	result.Object.Key = j.store(ctx, claim, result)
	if result.Stored() && len(result.Data) > smallData {
		result.Data = nil
	}
	j.metrics.duration.Observe(time.Since(started).Seconds())
	return result, true, nil
}

// claimer claims renditions.
type claimer interface {
	ClaimRendition(ctx context.Context, claim Claim) (claimed bool, err error)
}

// claimRendition claims a rendition. It does not end with ctx: a statement that is canceled may be committed after the claim was abandoned, which
// then keeps the rendition from being made until its lease ends.
func claimRendition(ctx context.Context, store claimer, claim Claim) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	claiming, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	claimed, err := store.ClaimRendition(claiming, claim)
	if err == nil {
		err = ctx.Err()
	}
	return claimed, err
}

// failed ends the claim of a job that made no picture, and returns the error of the request.
func (j *job) failed(ctx context.Context, claim Claim, err error) error {
	if fault.Is(err, fault.FileLost) {
		if _, state, found := j.deps.Store.FindRendition(ctx, j.item.AccountID, j.ref); found == nil && state == Absent {
			return media.ErrItemNotFound // it was deleted, with its file and this claim
		}
	}
	j.abandon(ctx, claim)
	return err
}

// render makes the picture.
func (j *job) render(ctx context.Context, slot media.ImageSlot) (Result, error) {
	j.metrics.made.Inc()
	rendered, err := j.deps.Renderer.Render(ctx, media.RenderJob{
		ItemID: j.item.ID, AccountID: j.item.AccountID, MimeType: j.original.MimeType, Bytes: j.original.Bytes, Purpose: media.OnDemand, Slot: slot,
		Taken:   func() { j.take(j.flight) },
		Source:  j.open,
		Recipes: []media.Recipe{j.request.Recipe}, MaxBytes: j.cfg.MaxBytes,
	})
	if err == nil && len(rendered) != 1 {
		err = errors.New("the renderer returned another number of pictures")
	}
	if err == nil {
		err = rendered[0].Err
	}
	if err != nil {
		j.remember(j.ref, j.request.Recipe.Format, err)
		return Result{}, err
	}
	picture := rendered[0]
	sum := sha256.Sum256(picture.Data)
	return Result{Object: media.Object{Bytes: int64(len(picture.Data)), MimeType: picture.MimeType, SHA256: sum[:]}, Width: picture.Width, Height: picture.Height, Data: picture.Data}, nil
}

// open opens the original.
func (j *job) open(ctx context.Context) (io.ReadCloser, error) {
	body, err := j.deps.Objects.Open(ctx, j.owner.Bucket, j.original.Key, 0, j.original.Bytes)
	if errors.Is(err, installation.ErrNoBucket) {
		return nil, fault.Wrap(err, fault.Unavailable, "the bucket of the account is missing")
	}
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Wrap(err, fault.FileLost, "the object store has lost the file of the item: an administrator can restore it from a backup")
	}
	return body, err
}

// store stores a picture under its claim, and returns the key of its object, empty if it is not stored. What goes wrong fails no request:
// the picture is there.
func (j *job) store(ctx context.Context, claim Claim, result Result) string {
	log := j.deps.Log.With("item", j.item.ID, "account", j.item.AccountID, "preset", j.request.Preset, "bytes", result.Object.Bytes)
	reserved, err := j.deps.Store.ReserveRendition(ctx, claim, result.Object.Bytes)
	if err == nil && !reserved {
		j.metrics.keepNot(noRoom)
		log.DebugContext(ctx, "the storage cap has no room for a rendition")
		j.abandon(ctx, claim)
		return ""
	}
	stage, key := "reserve", ObjectKey(j.item.ID, claim.ID)
	if err == nil {
		stage = "put"
		err = j.deps.Objects.Put(ctx, j.owner.Bucket, key, result.Object.MimeType, bytes.NewReader(result.Data), result.Object.Bytes)
	}
	if err == nil {
		stage = "finish"
		// The object is there: it is recorded also if no request waits any more.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		err = j.deps.Store.FinishRendition(ending, claim, result)
		cancel()
	}
	switch {
	case err == nil:
		result.Object.Key = key
		j.keep(j.ref, Stored{Result: result, UsedAt: j.deps.Now()})
		log.DebugContext(ctx, "a rendition was made", "type", result.Object.MimeType, "width", result.Width, "height", result.Height)
		return key
	case errors.Is(err, ErrLost):
		j.metrics.keepNot(ended)
		log.DebugContext(ctx, "a rendition was ended while it was made")
	default:
		j.metrics.keepNot(storeFailed)
		log.WarnContext(ctx, "a rendition is not stored", "stage", stage, "error", err)
		j.abandon(ctx, claim)
	}
	return ""
}

// abandon ends a claim, also when the context has ended. If it fails, the lease ends.
func (j *job) abandon(ctx context.Context, claim Claim) {
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := j.deps.Store.AbandonRendition(ending, claim); err != nil {
		j.deps.Log.WarnContext(ending, "the claim of a rendition is left to its lease", "item", claim.ItemID, "account", claim.AccountID, "error", err)
	}
}
