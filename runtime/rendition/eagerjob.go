package rendition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/media"
)

var (
	// errMaking ends an attempt after which a picture is missing that another process makes.
	errMaking = errors.New("another process makes a picture")
	// errNothing ends a job of which all pictures were claimed by others while it waited.
	errNothing = fault.New(fault.Conflict, "others make the pictures")
	// errSlow ends a job whose claims took longer than a worker is kept for them.
	errSlow = fault.New(fault.Unavailable, "the database is slow")
)

// eagerItem is an item of which pictures are made in advance. Attempt counts from 1.
type eagerItem struct {
	accountID, id uuid.UUID
	attempt       int
}

// do makes the pictures of an item. It returns nil for one that is given up, too.
func (e *Eager) do(ctx context.Context, item eagerItem, pictures []eagerPicture) error {
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	working, cancel := context.WithTimeout(ctx, e.maker.cfg.Timeout)
	defer cancel()
	a := &eagerAttempt{Eager: e, item: item}
	err := a.safely(working, pictures)
	log, result := e.maker.Log.With("item", item.id, "account", item.accountID, "attempt", item.attempt), eagerDone
	switch {
	case ctx.Err() != nil:
		result, err = eagerReturned, ctx.Err()
	case err == nil && a.rejected != nil:
		result = eagerFailed
		log.InfoContext(ctx, "pictures of an item cannot be made in advance", "error", a.rejected)
	case err == nil:
	case errors.Is(err, errNoRoom):
		result = eagerFull
		log.InfoContext(ctx, "the storage cap has no room for pictures that are made in advance", "pause", fullPause)
	case isPermanent(err) && item.attempt >= maxEagerAttempts:
		log.WarnContext(ctx, "pictures of an item cannot be made in advance", "error", err)
		result, err = eagerFailed, nil
	default:
		result = eagerRetried
	}
	e.metrics.items.WithLabelValues(result).Inc()
	return err
}

// isPermanent reports whether a later attempt would most likely fail as well.
func isPermanent(err error) bool {
	if errors.Is(err, installation.ErrNoBucket) { // wrong settings, or a mistake that an administrator can undo
		return false
	}
	return errors.Is(err, media.ErrWorkerFailed) || errors.Is(err, errPanic) || fault.Is(err, fault.FileLost) || fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid)
}

// eagerAttempt makes the pictures of one item.
type eagerAttempt struct {
	*Eager
	item     eagerItem
	image    *image
	file     []byte // that of the item, up to maxEagerRead
	rejected error  // why there are no pictures, or not all
	making   bool   // a picture is made by another process
	paced    bool
}

// safely is run that turns a panic into an error: it would end the process, and the requests that it serves.
func (a *eagerAttempt) safely(ctx context.Context, pictures []eagerPicture) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, panicked, debug.Stack())
		}
	}()
	return a.run(ctx, pictures)
}

// run makes the pictures that are missing.
func (a *eagerAttempt) run(ctx context.Context, pictures []eagerPicture) error {
	if len(pictures) == 0 {
		return nil
	}
	item, owner, err := a.deps.Store.ItemForDelivery(ctx, a.item.id)
	if err != nil {
		return err
	}
	original, _ := item.Objects.Find(media.Original)
	if item.Draft() || !a.maker.Renderer.Handles(original.MimeType, original.Bytes) {
		return nil
	}
	a.image = &image{item, owner, original}
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

// eagerWanted is a rendition that may have to be made in advance.
type eagerWanted struct {
	wanted
	next eagerPicture // what is tried if the picture cannot be made in its format
}

// round makes pictures, each in the first of its formats, and returns those that may have to be made in another one.
func (a *eagerAttempt) round(ctx context.Context, pictures []eagerPicture) (again []eagerPicture, err error) {
	var all []eagerWanted
	for _, picture := range pictures {
		request, rest, ok := picture.request(a.image.item, a.maker.Renderer.Encodes)
		if !ok {
			continue
		}
		picture.formats = rest
		w := eagerWanted{a.maker.want(a.image, request), picture}
		if !slices.ContainsFunc(all, func(other eagerWanted) bool { return other.Ref == w.Ref }) { // two presets may share it
			all = append(all, w)
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
			others, _, err := a.render(ctx, []eagerWanted{w})
			if err != nil {
				return nil, err
			}
			again = append(again, others...)
		}
	}
	return again, nil
}

// missing returns those that are not stored and that nobody makes.
func (a *eagerAttempt) missing(ctx context.Context, all []eagerWanted) ([]eagerWanted, error) {
	if len(all) == 0 {
		return nil, nil
	}
	keys := make([]media.RenditionKey, len(all))
	for i, w := range all {
		keys[i] = w.Key
	}
	states, err := a.deps.Store.MadeRenditions(ctx, a.item.id, keys)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(w eagerWanted) bool {
		a.making = a.making || states[w.Key] == Making
		return states[w.Key] != Absent
	}), nil
}

// render makes and stores pictures in one job, and returns those that may have to be made in another format, and those that have to be
// made alone: all pictures of a job have bytes for one together.
//
// They are claimed when a worker has taken the job: until then, a request makes them without waiting for it. The worker is kept for a moment only
// while the database does not respond. The file is read before.
func (a *eagerAttempt) render(ctx context.Context, chunk []eagerWanted) (others []eagerPicture, alone []eagerWanted, err error) {
	claims := make([]Claim, len(chunk)) // the zero Claim: not ours
	defer func() {
		for _, claim := range claims {
			if claim != (Claim{}) {
				a.maker.abandon(ctx, claim)
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
	pictures, err := a.maker.render(ctx, a.image, media.RenderJob{
		Purpose: media.Eager, Recipes: recipes,
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
			return a.maker.open(ctx, a.image)
		},
	})
	claiming.Wait()
	switch {
	case errors.Is(err, errNothing):
		return nil, nil, nil
	case errors.Is(err, media.ErrNotOffered), errors.Is(err, media.ErrOtherFormat):
		pictures = make([]media.Picture, len(chunk))
		for i := range pictures {
			pictures[i].Err = err
		}
		err = nil
	case fault.Is(err, fault.UnsupportedType):
		a.rejected = err
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for i, picture := range pictures {
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
			if _, failed := a.maker.store(ctx, a.image, claims[i], resultOf(picture)); failed != nil {
				return nil, nil, failed
			}
			claims[i] = Claim{}
			a.metrics.made.Inc()
		}
	}
	return others, alone, err
}

// read reads the file of the item, unless it is too large to be held.
func (a *eagerAttempt) read(ctx context.Context) error {
	if a.file != nil || a.image.original.Bytes > maxEagerRead {
		return nil
	}
	body, err := a.maker.open(ctx, a.image)
	if err != nil {
		return err
	}
	file := make([]byte, a.image.original.Bytes)
	_, err = io.ReadFull(body, file)
	if err = errors.Join(err, body.Close()); err != nil {
		return fmt.Errorf("read the file: %w", err)
	}
	a.file = file
	return nil
}

// claimInTime is claim that returns after a moment, with an error, while claim may go on.
func (a *eagerAttempt) claimInTime(ctx context.Context, chunk []eagerWanted, claims []Claim, claiming *sync.WaitGroup) error {
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
func (a *eagerAttempt) claim(ctx context.Context, chunk []eagerWanted, claims []Claim) error {
	claimedAny := false
	for i, w := range chunk {
		claim, claimed, err := a.maker.claim(ctx, w.wanted, true)
		if err != nil {
			return err
		}
		if claimed {
			claims[i], claimedAny = claim, true
		} else {
			a.making = true
		}
	}
	if !claimedAny {
		return errNothing
	}
	return nil
}
