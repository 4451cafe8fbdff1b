package media

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"

	"mediastack.dev/runtime/fault"
)

// derive makes and stores the derivatives that the account's settings want of the
// file, which is stored already. What can't be made is lacking, and the log says so; that
// is no failure of the upload, but a cap that does not hold them is, and an object store
// that is away.
func (u *Upload) derive(ctx context.Context) (Objects, error) {
	images := u.service.images
	if images == nil || !images.Handles(u.mimeType, u.size) {
		return nil, nil
	}
	layers, err := u.service.settings.Get(ctx, u.scope.AccountID)
	if err != nil {
		return nil, err
	}
	made, err := images.Derive(ctx, ImageJob{
		ItemID: u.id, AccountID: u.scope.AccountID, MimeType: u.mimeType, Bytes: u.size, Place: u.place,
		Source: u.original, Settings: layers.Effective(),
	})
	if ctx.Err() != nil {
		return nil, fault.Wrap(fmt.Errorf("derivatives of item %s: %w", u.id, ctx.Err()), fault.Unavailable, "the request ended before its thumbnail was made")
	}
	if fault.Is(err, fault.Unavailable) {
		// The object store did not give the file back: a repeated request gets all derivatives.
		return nil, fmt.Errorf("derivatives of item %s: %w", u.id, err)
	}
	if err != nil {
		u.service.log.WarnContext(ctx, "an image lacks derivatives", "item", u.id, "account", u.scope.AccountID, "type", u.mimeType, "bytes", u.size,
			"made", variantsOf(made), "error", err)
	}
	objects := make(Objects, len(made))
	for i, one := range made {
		sum := sha256.Sum256(one.Data)
		objects[i] = Object{Variant: one.Variant, Key: u.key(one.Variant), Bytes: int64(len(one.Data)), MimeType: one.MimeType, SHA256: sum[:]}
	}
	if err := u.hold(ctx, u.size+objects.Bytes()); err != nil {
		return nil, err
	}
	for i, object := range objects {
		if err := u.put(ctx, object, bytes.NewReader(made[i].Data)); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// variantsOf lists what was made, for the log.
func variantsOf(made []Derivative) string {
	names := make([]string, len(made))
	for i, one := range made {
		names[i] = string(one.Variant)
	}
	return strings.Join(names, " ")
}

// look tells the type of a file that is on its way, as soon as that is possible, and
// takes a place in the queue of images for one of which derivatives are wanted. So an
// image that can't be taken is refused before most of it has come, and nothing else is.
func (u *Upload) look(claim string, whole bool) error {
	u.detect(claim, whole)
	images := u.service.images
	switch wanted := images != nil && images.Handles(u.mimeType, max(u.size, u.atLeast)); {
	case wanted && u.place == nil:
		var err error
		u.place, err = images.Reserve(u.scope.AccountID)
		return err
	case !wanted:
		u.leaveQueue()
	}
	return nil
}

// await waits for a place in the queue of images, if the file, which has arrived, needs
// one.
func (u *Upload) await(ctx context.Context) error {
	images := u.service.images
	if images == nil || !images.Handles(u.mimeType, u.size) {
		return nil
	}
	var err error
	u.place, err = images.Await(ctx, u.scope.AccountID)
	return err
}

// leaveQueue releases the place in the queue of images, if there is one.
func (u *Upload) leaveQueue() {
	if u.place != nil {
		u.place.Release()
		u.place = nil
	}
}

// original opens the file: from memory while it is there, else from S3.
func (u *Upload) original(ctx context.Context) (io.ReadCloser, error) {
	if u.parts == nil && !u.elsewhere {
		return u.buffer.body(u.buffer.size), nil
	}
	return u.service.objects.Open(ctx, u.scope.Bucket, u.key(Original), 0, u.size)
}
