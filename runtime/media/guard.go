package media

import (
	"context"
	"io"

	"mediastack.dev/runtime/installation"
)

// Guard decides whether objects may be removed. installation.Guard implements it.
type Guard interface {
	// Beat proves that the database owns the buckets.
	Beat(ctx context.Context) error
	// Writable returns a fault with a reason while nothing may be written to the object store.
	Writable() error
	// CheckBucket returns a fault unless the bucket belongs to the account. It wraps
	// installation.ErrNoBucket if the bucket does not exist.
	CheckBucket(ctx context.Context, bucket installation.Bucket) (installation.Marker, error)
}

// GuardWrites returns an ObjectStore that rejects every write while writable returns an error. Reads
// pass.
func GuardWrites(objects ObjectStore, writable func() error) ObjectStore {
	return GuardObjects(objects, func() error { return nil }, writable)
}

// GuardObjects returns an ObjectStore that rejects every read while readable returns an error, and
// every write while readable or writable does. Uploads are rejected before they are read.
func GuardObjects(objects ObjectStore, readable, writable func() error) ObjectStore {
	return guardedObjects{ObjectStore: objects, readable: readable, writable: func() error {
		if err := readable(); err != nil {
			return err
		}
		return writable()
	}}
}

type guardedObjects struct {
	ObjectStore
	readable, writable func() error
}

// writeChecker is an ObjectStore that knows that a write would fail.
type writeChecker interface{ CheckWritable() error }

var _ writeChecker = guardedObjects{}

// CheckWritable returns the error that every write returns at present; nil if there is none.
func (g guardedObjects) CheckWritable() error { return g.writable() }

// CheckWritable returns the error of an object store to which nothing can be written at present.
func CheckWritable(objects ObjectStore) error {
	if checker, ok := objects.(writeChecker); ok {
		return checker.CheckWritable()
	}
	return nil
}

// Open implements ObjectStore.
func (g guardedObjects) Open(ctx context.Context, bucket, key string, offset, length int64) (io.ReadCloser, error) {
	if err := g.readable(); err != nil {
		return nil, err
	}
	return g.ObjectStore.Open(ctx, bucket, key, offset, length)
}

// Put implements ObjectStore.
func (g guardedObjects) Put(ctx context.Context, bucket, key, contentType string, body io.ReadSeeker, size int64) error {
	if err := g.writable(); err != nil {
		return err
	}
	return g.ObjectStore.Put(ctx, bucket, key, contentType, body, size)
}

// StartMultipart implements ObjectStore.
func (g guardedObjects) StartMultipart(ctx context.Context, bucket, key, contentType string) (Multipart, error) {
	if err := g.writable(); err != nil {
		return nil, err
	}
	started, err := g.ObjectStore.StartMultipart(ctx, bucket, key, contentType)
	if err != nil {
		return nil, err
	}
	return guardedMultipart{started, g.writable}, nil
}

// ResumeMultipart implements ObjectStore.
func (g guardedObjects) ResumeMultipart(bucket, key, id string, parts []Part) Multipart {
	return guardedMultipart{g.ObjectStore.ResumeMultipart(bucket, key, id, parts), g.writable}
}

// Remove implements ObjectStore.
func (g guardedObjects) Remove(ctx context.Context, bucket string, keys []string) error {
	if err := g.writable(); err != nil {
		return err
	}
	return g.ObjectStore.Remove(ctx, bucket, keys)
}

// AbortIncomplete implements ObjectStore.
func (g guardedObjects) AbortIncomplete(ctx context.Context, bucket, key string) error {
	if err := g.writable(); err != nil {
		return err
	}
	return g.ObjectStore.AbortIncomplete(ctx, bucket, key)
}

type guardedMultipart struct {
	Multipart
	writable func() error
}

// Part implements Multipart.
func (g guardedMultipart) Part(ctx context.Context, body io.ReadSeeker, size int64) error {
	if err := g.writable(); err != nil {
		return err
	}
	return g.Multipart.Part(ctx, body, size)
}

// Complete implements Multipart.
func (g guardedMultipart) Complete(ctx context.Context, contentType string) error {
	if err := g.writable(); err != nil {
		return err
	}
	return g.Multipart.Complete(ctx, contentType)
}

// Abort implements Multipart.
func (g guardedMultipart) Abort(ctx context.Context) error {
	if err := g.writable(); err != nil {
		return err
	}
	return g.Multipart.Abort(ctx)
}
