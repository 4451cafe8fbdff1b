package rendition

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/media"
)

var (
	// errFull ends an attempt without room under the storage cap.
	errFull = errors.New("the storage cap has no room for the pictures")
	// errMaking ends an attempt after which a picture is missing that another process makes.
	errMaking = errors.New("another process makes a picture")
	// errNothing ends a job of which all pictures were claimed by others while it waited.
	errNothing = fault.New(fault.Conflict, "others make the pictures")
	// errSlow ends a job whose claims took longer than a worker is kept for them.
	errSlow = fault.New(fault.Unavailable, "the database is slow")
)

// do makes the pictures of an item, and ends its claim.
func (e *Eager) do(ctx context.Context, task EagerTask) {
	working, cancel := context.WithTimeout(ctx, e.deps.Timeout)
	a := &eagerAttempt{Eager: e, task: task}
	err := a.safely(working)
	cancel()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	var recorded error
	result := eagerDone
	log := e.deps.Log.With("item", task.ItemID, "account", task.AccountID, "attempt", task.Attempt)
	switch {
	case ctx.Err() != nil:
		result, recorded = eagerReturned, e.deps.Store.ReturnEager(ending, task, 0, false)
	case err == nil:
		if a.rejected != nil {
			result = eagerFailed
			log.InfoContext(ending, "pictures of an item cannot be made in advance", "error", a.rejected)
		}
		recorded = e.deps.Store.FinishEager(ending, task)
	case errors.Is(err, errFull):
		result = eagerFull
		log.InfoContext(ending, "the storage cap has no room for pictures that are made in advance", "pause", fullPause)
		recorded = errors.Join(e.deps.Store.ReturnEager(ending, task, 0, false), e.deps.Store.PauseEager(ending, task.AccountID, fullPause))
	case errors.Is(err, errMaking):
		result, recorded = eagerRetried, e.deps.Store.ReturnEager(ending, task, makingPause, true)
	case isPermanent(err) && task.Attempt >= maxEagerAttempts:
		result = eagerFailed
		log.WarnContext(ending, "pictures of an item cannot be made in advance", "error", err)
		recorded = e.deps.Store.FinishEager(ending, task)
	default:
		result = eagerRetried
		log.DebugContext(ending, "making pictures in advance is tried again", "error", err)
		recorded = e.deps.Store.ReturnEager(ending, task, backoffOf(task.Attempt), true)
	}
	e.metrics.items.WithLabelValues(result).Inc()
	if recorded != nil {
		log.WarnContext(ending, "the end of making pictures in advance is not recorded; another attempt will find out", "error", recorded)
	}
}

// isPermanent reports whether a later attempt would most likely fail as well.
func isPermanent(err error) bool {
	if errors.Is(err, installation.ErrNoBucket) { // wrong settings, or a mistake that an administrator can undo
		return false
	}
	return errors.Is(err, media.ErrWorkerFailed) || errors.Is(err, errPanic) || fault.Is(err, fault.FileLost) || fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid)
}

// backoffOf returns the pause after an attempt that failed.
func backoffOf(attempt int) time.Duration {
	return min(eagerBackoff<<min(attempt-1, 10), maxEagerBackoff)
}

// eagerAttempt makes the pictures of one item.
type eagerAttempt struct {
	*Eager
	task     EagerTask
	item     media.Item
	owner    media.Owner
	original media.Object
	file     []byte // that of the item, up to maxEagerRead
	rejected error  // why there are no pictures, or not all
	making   bool   // a picture is made by another process
	paced    bool
}

// errPanic is in the chain of the error of an attempt that panicked.
var errPanic = errors.New("panic")

// safely is run that turns a panic into an error: it would end the process, and the requests that it serves.
func (a *eagerAttempt) safely(ctx context.Context) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, panicked, debug.Stack())
		}
	}()
	return a.run(ctx)
}

// run makes the pictures that are missing.
func (a *eagerAttempt) run(ctx context.Context) error {
	layers, err := a.deps.Settings.Get(ctx, a.task.AccountID)
	if err != nil {
		return err
	}
	pictures := eagerPictures(layers)
	if len(pictures) == 0 {
		return nil
	}
	if a.item, a.owner, err = a.deps.Store.ItemForDelivery(ctx, a.task.ItemID); err != nil {
		return err
	}
	a.original, _ = a.item.Objects.Find(media.Original)
	if a.item.Draft() || !a.deps.Renderer.Handles(a.original.MimeType, a.original.Bytes) {
		return nil
	}
	for len(pictures) > 0 && a.rejected == nil {
		if pictures, err = a.round(ctx, pictures); err != nil {
			return err
		}
	}
	if !a.paced { // all pictures are there
		if err := a.pace(ctx, skipShare); err != nil {
			return err
		}
	}
	if a.making {
		return errMaking
	}
	return nil
}

// wanted is a picture of the item that may have to be made.
type wanted struct {
	Request
	Ref
	next eagerPicture // what is tried if the picture cannot be made in its format
}

// round makes pictures, each in the first of its formats, and returns those that may have to be made in another one.
func (a *eagerAttempt) round(ctx context.Context, pictures []eagerPicture) (again []eagerPicture, err error) {
	var all []wanted
	for _, picture := range pictures {
		request, rest, ok := picture.request(a.item, a.deps.Renderer.Encodes)
		if !ok {
			continue
		}
		picture.formats = rest
		ref := Ref{ItemID: a.item.ID, Key: request.Recipe.Key(a.original.SHA256, a.deps.Encoder)}
		if !slices.ContainsFunc(all, func(w wanted) bool { return w.Ref == ref }) { // two presets may share it
			all = append(all, wanted{request, ref, picture})
		}
	}
	if all, err = a.missing(ctx, all); err != nil {
		return nil, err
	}
	for chunk := range slices.Chunk(all, media.MaxRecipes) {
		if !a.paced {
			if err := a.pace(ctx, 1); err != nil {
				return nil, err
			}
			a.paced = true
		}
		others, alone, err := a.render(ctx, chunk)
		if err != nil {
			return nil, err
		}
		again = append(again, others...)
		for _, w := range alone {
			others, _, err := a.render(ctx, []wanted{w})
			if err != nil {
				return nil, err
			}
			again = append(again, others...)
		}
	}
	return again, nil
}

// missing returns those that are not stored and that nobody makes.
func (a *eagerAttempt) missing(ctx context.Context, all []wanted) ([]wanted, error) {
	if len(all) == 0 {
		return nil, nil
	}
	keys := make([]media.RenditionKey, len(all))
	for i, w := range all {
		keys[i] = w.Key
	}
	states, err := a.deps.Store.MadeRenditions(ctx, a.item.ID, keys)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(w wanted) bool {
		a.making = a.making || states[w.Key] == Making
		return states[w.Key] != Absent
	}), nil
}

// render makes and stores pictures in one job, and returns those that may have to be made in another format, and those that have to be
// made alone: all pictures of a job have bytes for one together.
//
// They are claimed when a worker has taken the job: until then, a request makes them without waiting for it. The worker is kept for a moment only
// while the database does not respond. The file is read before.
func (a *eagerAttempt) render(ctx context.Context, chunk []wanted) (others []eagerPicture, alone []wanted, err error) {
	claims := make([]Claim, len(chunk)) // the zero Claim: not ours
	defer func() {
		for _, claim := range claims {
			if claim != (Claim{}) {
				a.abandon(ctx, claim)
			}
		}
	}()
	if err := a.read(ctx); err != nil {
		return nil, nil, err
	}
	recipes := make([]media.Recipe, len(chunk))
	for i, w := range chunk {
		recipes[i] = w.Recipe
	}
	var claiming sync.WaitGroup
	begun, attempt := false, ctx
	rendered, err := a.deps.Renderer.Render(ctx, media.RenderJob{
		ItemID: a.item.ID, AccountID: a.item.AccountID, MimeType: a.original.MimeType, Bytes: a.original.Bytes, Purpose: media.Eager, Recipes: recipes, MaxBytes: a.deps.MaxBytes,
		Source: func(ctx context.Context) (io.ReadCloser, error) {
			if !begun { // it is called again for a retry
				begun = true
				if err := a.claimInTime(attempt, chunk, claims, &claiming); err != nil {
					return nil, err
				}
			}
			if a.file != nil {
				return io.NopCloser(bytes.NewReader(a.file)), nil
			}
			return a.open(ctx)
		},
	})
	claiming.Wait()
	switch {
	case errors.Is(err, errNothing):
		return nil, nil, nil
	case errors.Is(err, media.ErrNotOffered), errors.Is(err, media.ErrOtherFormat):
		rendered = make([]media.Rendered, len(chunk))
		for i := range rendered {
			rendered[i].Err = err
		}
		err = nil
	case fault.Is(err, fault.UnsupportedType):
		a.rejected = err
		return nil, nil, nil
	case err == nil && len(rendered) != len(chunk):
		err = errors.New("the renderer returned another number of pictures")
	}
	if err != nil {
		return nil, nil, err
	}
	for i, picture := range rendered {
		switch {
		case errors.Is(picture.Err, media.ErrNotOffered):
			others = append(others, chunk[i].next)
		case errors.Is(picture.Err, media.ErrOtherFormat) && len(chunk[i].next.formats) > 0:
			others = append(others, chunk[i].next)
		case fault.Is(picture.Err, fault.UnsupportedType) && len(chunk) > 1:
			alone = append(alone, chunk[i])
		case fault.Is(picture.Err, fault.UnsupportedType):
			a.rejected = picture.Err
		case picture.Err != nil:
			err = picture.Err
		case claims[i] == (Claim{}): // another process makes it
		default:
			if failed := a.store(ctx, claims[i], picture); failed != nil {
				return nil, nil, failed
			}
			claims[i] = Claim{}
		}
	}
	return others, alone, err
}

// read reads the file of the item, unless it is too large to be held.
func (a *eagerAttempt) read(ctx context.Context) error {
	if a.file != nil || a.original.Bytes > maxEagerRead {
		return nil
	}
	body, err := a.open(ctx)
	if err != nil {
		return err
	}
	file := make([]byte, a.original.Bytes)
	_, err = io.ReadFull(body, file)
	if err = errors.Join(err, body.Close()); err != nil {
		return fmt.Errorf("read the file: %w", err)
	}
	a.file = file
	return nil
}

// claimInTime is claim that returns after a moment, with an error, while claim may go on.
func (a *eagerAttempt) claimInTime(ctx context.Context, chunk []wanted, claims []Claim, claiming *sync.WaitGroup) error {
	done := make(chan error, 1)
	claiming.Go(func() { done <- a.claim(ctx, chunk, claims) })
	late := time.NewTimer(a.claimWait)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return errSlow
	}
}

// claim claims pictures that nobody else makes.
func (a *eagerAttempt) claim(ctx context.Context, chunk []wanted, claims []Claim) error {
	claimedAny := false
	for i, w := range chunk {
		id, err := a.deps.NewID()
		if err != nil {
			return err
		}
		claim := Claim{ID: id, Ref: w.Ref, AccountID: a.item.AccountID, Preset: w.Preset, RecipeID: w.Recipe.ID(a.deps.Encoder), Lease: a.deps.Timeout + leaseMargin, Eager: true}
		claims[i] = claim // also if its answer is lost
		claimed, err := claimRendition(ctx, a.deps.Store, claim)
		if err != nil {
			return err
		}
		if claimed {
			claimedAny = true
		} else {
			claims[i], a.making = Claim{}, true
		}
	}
	if !claimedAny {
		return errNothing
	}
	return nil
}

// open opens the original.
func (a *eagerAttempt) open(ctx context.Context) (io.ReadCloser, error) {
	body, err := a.deps.Objects.Open(ctx, a.owner.Bucket, a.original.Key, 0, a.original.Bytes)
	if errors.Is(err, installation.ErrNoBucket) {
		return nil, fault.Wrap(err, fault.Unavailable, "the bucket of the account is missing")
	}
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Wrap(err, fault.FileLost, "the object store has lost the file of the item")
	}
	return body, err
}

// store stores a picture under its claim.
func (a *eagerAttempt) store(ctx context.Context, claim Claim, picture media.Rendered) error {
	size := int64(len(picture.Data))
	reserved, err := a.deps.Store.ReserveRendition(ctx, claim, size)
	if err != nil {
		return err
	}
	if !reserved {
		return errFull
	}
	if err := a.deps.Objects.Put(ctx, a.owner.Bucket, ObjectKey(a.item.ID, claim.ID), picture.MimeType, bytes.NewReader(picture.Data), size); err != nil {
		return err
	}
	sum := sha256.Sum256(picture.Data)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout) // the object is there
	defer cancel()
	err = a.deps.Store.FinishRendition(ending, claim, Result{Object: media.Object{Bytes: size, MimeType: picture.MimeType, SHA256: sum[:]}, Width: picture.Width, Height: picture.Height})
	if err == nil {
		a.metrics.made.Inc()
	}
	return err
}

// abandon ends a claim, also when the context has ended. If it fails, the lease ends.
func (a *eagerAttempt) abandon(ctx context.Context, claim Claim) {
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := a.deps.Store.AbandonRendition(ending, claim); err != nil {
		a.deps.Log.WarnContext(ending, "the claim of a rendition is left to its lease", "item", claim.ItemID, "account", claim.AccountID, "error", err)
	}
}
