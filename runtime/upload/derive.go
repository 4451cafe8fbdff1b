package upload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// derive reads what the image is, makes the derivatives that the account's settings ask for, and
// stores them, unless the settings ask for them later. The file itself is stored already. A derivative that can't be made is omitted and logged: it
// does not fail the upload. A cap without room for the derivatives does, and so does an
// object store that is unavailable.
func (t *transfer) derive(ctx context.Context) (media.Objects, error) {
	if !t.wantsDerivatives(t.size) {
		return nil, nil
	}
	if later, err := t.derivesLater(ctx); later || err != nil {
		t.pending = later
		return nil, err
	}
	layers, err := t.service.deps.Settings.Get(ctx, t.scope.AccountID)
	if err != nil {
		return nil, err
	}
	facts, made, err := t.service.deps.Deriver.Derive(ctx, media.ImageJob{
		ItemID: t.id, AccountID: t.scope.AccountID, MimeType: t.mimeType, Bytes: t.size, Slot: t.imageSlot,
		Source: t.open, Settings: layers.Effective(), KeepLocation: t.account.KeepLocation,
	})
	if ctx.Err() != nil {
		return nil, fault.Wrap(fmt.Errorf("derivatives of item %s: %w", t.id, ctx.Err()), fault.Unavailable, "the request ended before its thumbnail was made")
	}
	if fault.Is(err, fault.Unavailable) {
		// The object store did not return the file: a repeated request makes all derivatives.
		return nil, fmt.Errorf("derivatives of item %s: %w", t.id, err)
	}
	if t.underivable = err; err != nil {
		t.service.deps.Log.WarnContext(ctx, "derivatives are missing", "item", t.id, "account", t.scope.AccountID, "type", t.mimeType, "bytes", t.size,
			"made", variantNames(made), "error", err)
	}
	t.facts = facts
	objects := make(media.Objects, len(made))
	for i, derivative := range made {
		sum := sha256.Sum256(derivative.Data)
		objects[i] = media.Object{Variant: derivative.Variant, Key: t.key(derivative.Variant), Bytes: int64(len(derivative.Data)), MimeType: derivative.MimeType, SHA256: sum[:]}
	}
	if t.writer == nil {
		if err := t.reservation.reserve(ctx, t.size+objects.Bytes()); err != nil {
			return nil, err
		}
	}
	for i, object := range objects {
		if err := t.put(ctx, object.Variant, object.MimeType, bytes.NewReader(made[i].Data), object.Bytes); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// variantNames returns the variants of derivatives, for the log.
func variantNames(made []media.Derivative) string {
	names := make([]string, len(made))
	for i, derivative := range made {
		names[i] = string(derivative.Variant)
	}
	return strings.Join(names, " ")
}

// wantsDerivatives reports whether derivatives are made of a file of this size.
func (t *transfer) wantsDerivatives(size int64) bool {
	return t.service.deps.Deriver != nil && t.service.deps.Deriver.Handles(t.mimeType, size)
}

// derivesLater reports whether the derivatives of images are made after the upload. It is the same for a whole request.
func (t *transfer) derivesLater(ctx context.Context) (bool, error) {
	if t.derivatives == "" {
		layers, err := t.service.deps.Settings.Get(ctx, t.scope.AccountID)
		if err != nil {
			return false, err
		}
		t.derivatives, _ = layers.Derivatives()
	}
	return t.derivatives == settings.DerivativesLater, nil
}

// checkImages returns Busy if an image of an account would be rejected, because its derivatives have to be made with its upload.
func (s *Service) checkImages(ctx context.Context, accountID uuid.UUID) error {
	if s.deps.Deriver == nil {
		return nil
	}
	busy := s.deps.Deriver.CheckAdmission(accountID)
	if busy == nil {
		return nil
	}
	layers, err := s.deps.Settings.Get(ctx, accountID)
	if err != nil {
		return err
	}
	if derivatives, _ := layers.Derivatives(); derivatives == settings.DerivativesLater {
		return nil
	}
	return busy
}

// classify detects the content type as soon as enough bytes have arrived, and reserves an
// image slot if derivatives are needed: an image for which there is no slot is rejected
// before most of it has arrived, and no other file is.
func (t *transfer) classify(ctx context.Context, declaredType string, ended bool) error {
	t.detectType(declaredType, ended)
	if err := t.checkType(); err != nil {
		return err
	}
	switch wanted := t.wantsDerivatives(max(t.size, t.sizeHint)); {
	case wanted && t.imageSlot == nil:
		later, err := t.derivesLater(ctx)
		if later || err != nil {
			return err
		}
		t.imageSlot, err = t.service.deps.Deriver.Reserve(t.scope.AccountID)
		return err
	case !wanted:
		t.releaseImageSlot()
	}
	return nil
}

// waitImageSlot waits for an image slot if derivatives of the file, which has arrived, are
// needed.
func (t *transfer) waitImageSlot(ctx context.Context) error {
	if !t.wantsDerivatives(t.size) {
		return nil
	}
	later, err := t.derivesLater(ctx)
	if later || err != nil {
		return err
	}
	t.imageSlot, err = t.service.deps.Deriver.ReserveWait(ctx, t.scope.AccountID)
	return err
}

// releaseImageSlot releases the image slot, if the transfer holds one.
func (t *transfer) releaseImageSlot() {
	if t.imageSlot != nil {
		t.imageSlot.Release()
		t.imageSlot = nil
	}
}

// open opens the file: from memory if the whole of it is there, else from the object store.
func (t *transfer) open(ctx context.Context) (io.ReadCloser, error) {
	if t.inMemory() {
		return t.buffer.reader(t.buffer.size), nil
	}
	return t.service.deps.Objects.Open(ctx, t.scope.Bucket, t.key(media.Original), 0, t.size)
}
