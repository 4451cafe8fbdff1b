package rendition

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/media"
)

const (
	// leaseMargin is how much longer the lease of a claim lasts than the work: it covers the statement that ends it.
	leaseMargin = 30 * time.Second
	// endTimeout bounds the statements that end work after its context has ended.
	endTimeout = 10 * time.Second
)

var (
	// errNoRoom is the error of a rendition for which the storage cap has no room.
	errNoRoom = errors.New("the storage cap has no room for the rendition")
	// errPanic is in the chain of the error of work that panicked.
	errPanic = errors.New("panic")
)

// Objects stores and reads objects. objectstore.Store implements it.
type Objects interface {
	Put(ctx context.Context, bucket, key, contentType string, body io.ReadSeeker, size int64) error
	Open(ctx context.Context, bucket, key string, offset, length int64) (io.ReadCloser, error)
}

// MakerDeps are the dependencies of a Maker.
type MakerDeps struct {
	Claims  Claims
	Objects Objects
	// Renderer makes pictures; nil = none are made, and those that are stored are served.
	Renderer media.Renderer
	// NewID returns the id of a claim.
	NewID func() (uuid.UUID, error)
	// Encoder is the version of the encoder: media.EncoderVersion, except in tests.
	Encoder int
	// Writable returns an error while nothing may be written, not even to the database: renditions are then made for
	// requests, and not stored. nil = never.
	Writable func() error
	Log      *slog.Logger
}

// Maker makes renditions, for requests (Service) and in advance (Eager): it claims them, so no two processes make the
// same one, has an image worker render them, reserves their bytes and stores them. Its callers decide when, and what
// happens to a picture that is not stored; they abandon each claim under which nothing was stored. It is safe for
// concurrent use.
type Maker struct {
	MakerDeps
	cfg Config
}

// NewMaker returns a Maker that uses deps.
func NewMaker(cfg Config, deps MakerDeps) (*Maker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Maker{deps, cfg}, nil
}

// image is an item of whose original pictures are made.
type image struct {
	item     media.Item
	owner    media.Owner
	original media.Object
}

// wanted is a rendition of an image that may have to be made.
type wanted struct {
	Ref
	Request
	*image
}

// want returns the rendition of an image that a request asks for.
func (m *Maker) want(of *image, request Request) wanted {
	return wanted{Ref{ItemID: of.item.ID, Key: request.Recipe.Key(of.original.SHA256, m.Encoder)}, request, of}
}

// held reports whether nothing may be written at present, not even to the database.
func (m *Maker) held() bool { return m.Writable != nil && m.Writable() != nil }

// claim claims a rendition; false if it is stored, or another process makes it. The statement does not end with ctx: one
// that is canceled may be committed after the claim was abandoned, which then keeps the rendition from being made until
// its lease ends.
func (m *Maker) claim(ctx context.Context, w wanted, eager bool) (Claim, bool, error) {
	if err := ctx.Err(); err != nil {
		return Claim{}, false, err
	}
	id, err := m.NewID()
	if err != nil {
		return Claim{}, false, err
	}
	claim := Claim{ID: id, Ref: w.Ref, AccountID: w.item.AccountID, Preset: w.Preset, RecipeID: w.Recipe.ID(m.Encoder), Lease: m.cfg.Timeout + leaseMargin, Eager: eager}
	claiming, cancel := ending(ctx)
	defer cancel()
	claimed, err := m.Claims.ClaimRendition(claiming, claim)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		m.abandon(ctx, claim) // its answer may be lost
		return Claim{}, false, err
	}
	return claim, claimed, nil
}

// open opens the original of an image.
func (m *Maker) open(ctx context.Context, of *image) (io.ReadCloser, error) {
	body, err := m.Objects.Open(ctx, of.owner.Bucket, of.original.Key, 0, of.original.Bytes)
	if err = bucketMissing(err); fault.Is(err, fault.NotFound) {
		return nil, fault.Wrap(err, fault.FileLost, "the object store has lost the file of the item: an administrator can restore it from a backup")
	}
	return body, err
}

// bucketMissing returns the error of a read. A bucket that is missing is no object that is missing.
func bucketMissing(err error) error {
	if errors.Is(err, installation.ErrNoBucket) {
		return fault.Wrap(err, fault.Unavailable, "the bucket of the account is missing")
	}
	return err
}

// render has an image worker make the pictures of the recipes of job, and returns one for each. It adds to job what
// follows from the image, and the source unless job has one.
func (m *Maker) render(ctx context.Context, of *image, job media.RenderJob) ([]media.Picture, error) {
	job.ItemID, job.AccountID, job.MimeType, job.Bytes, job.MaxBytes = of.item.ID, of.item.AccountID, of.original.MimeType, of.original.Bytes, m.cfg.MaxBytes
	if job.Source == nil {
		job.Source = func(ctx context.Context) (io.ReadCloser, error) { return m.open(ctx, of) }
	}
	pictures, err := m.Renderer.Render(ctx, job)
	if err == nil && len(pictures) != len(job.Recipes) {
		return nil, fmt.Errorf("the renderer returned %d pictures of %d recipes", len(pictures), len(job.Recipes))
	}
	return pictures, err
}

// resultOf returns the result of a picture that is not stored.
func resultOf(picture media.Picture) Result {
	sum := sha256.Sum256(picture.Data)
	return Result{Object: media.Object{Bytes: int64(len(picture.Data)), MimeType: picture.MimeType, SHA256: sum[:]}, Width: picture.Width, Height: picture.Height, Data: picture.Data}
}

// store stores a picture under its claim, and returns the key of its object. The error is errNoRoom, or in its chain
// ErrLost, if the claim was lost or the item deleted, or the error of a store.
func (m *Maker) store(ctx context.Context, of *image, claim Claim, made Result) (key string, err error) {
	reserved, err := m.Claims.ReserveRendition(ctx, claim, made.Object.Bytes)
	if err != nil {
		return "", fmt.Errorf("reserve the bytes: %w", err)
	}
	if !reserved {
		return "", errNoRoom
	}
	key = ObjectKey(claim.ItemID, claim.ID)
	if err := m.Objects.Put(ctx, of.owner.Bucket, key, made.Object.MimeType, bytes.NewReader(made.Data), made.Object.Bytes); err != nil {
		return "", fmt.Errorf("put the object: %w", err)
	}
	finishing, cancel := ending(ctx) // the object is there: it is recorded also if nobody waits any more
	defer cancel()
	if err := m.Claims.FinishRendition(finishing, claim, made); err != nil {
		return "", fmt.Errorf("finish the claim: %w", err)
	}
	return key, nil
}

// abandon ends a claim that is not finished, also when ctx has ended. If it fails, the lease ends.
func (m *Maker) abandon(ctx context.Context, claim Claim) {
	abandoning, cancel := ending(ctx)
	defer cancel()
	if err := m.Claims.AbandonRendition(abandoning, claim); err != nil {
		m.Log.WarnContext(ctx, "the claim of a rendition is left to its lease", "item", claim.ItemID, "account", claim.AccountID, "error", err)
	}
}

// ending returns a context for a statement that is needed also when ctx has ended.
func ending(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
}
