package objectstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
)

// errNoConditionalPut is wrapped by the error for a store without conditional puts. Without
// them two accounts could claim one bucket (docs/decisions/0010).
var errNoConditionalPut = errors.New("If-None-Match: * is not supported, or is ignored")

func noConditionalPut(cause error) error {
	return fault.WithReason(fault.Wrap(errors.Join(errNoConditionalPut, cause), fault.Unavailable,
		"the object store does not support conditional puts (If-None-Match: *) and cannot be used"), fault.Unsupported)
}

// putMarker puts a bucket's marker. Conflict when there is one.
func (s *Store) putMarker(ctx context.Context, bucket string, marker []byte) error {
	options := minio.PutObjectOptions{ContentType: "application/json", DisableContentSha256: true}
	options.SetMatchETagExcept("*")
	_, err := s.client.PutObject(ctx, bucket, MarkerKey, bytes.NewReader(marker), int64(len(marker)), options)
	if minio.ToErrorResponse(err).StatusCode == http.StatusNotImplemented {
		return noConditionalPut(fmt.Errorf("s3: mark bucket %s: %w", bucket, err))
	}
	return classify(err, "mark bucket "+bucket)
}

// replaceMarker replaces the version of a marker that was read. Conflict when it has changed
// since. A store without If-Match replaces whatever there is: two databases that write to it are
// then found one heartbeat later. It does not repeat the request: a put that had succeeded would
// conflict with itself.
func (s *Store) replaceMarker(ctx context.Context, bucket string, marker installation.Marker) error {
	text, err := json.Marshal(marker)
	if err != nil {
		return err
	}
	put := func(options minio.PutObjectOptions) error {
		options.ContentType, options.DisableContentSha256 = "application/json", true
		_, err := s.noRetry.Client.PutObject(ctx, bucket, MarkerKey, bytes.NewReader(text), int64(len(text)), options)
		return err
	}
	var conditional minio.PutObjectOptions
	conditional.SetMatchETag(marker.Version)
	err = put(conditional)
	if minio.ToErrorResponse(err).StatusCode == http.StatusNotImplemented {
		err = put(minio.PutObjectOptions{})
	}
	return classify(err, "rewrite the marker of bucket "+bucket)
}

// proveConditionalPut puts the marker of a bucket that has one again, and returns nil if the
// store rejects that. marker is the existing one, so that a store which ignores the condition
// changes nothing. The marker may be removed at the same moment; so a put that succeeds is
// repeated once.
func (s *Store) proveConditionalPut(ctx context.Context, bucket string, marker []byte) error {
	for range 2 {
		if err := s.putMarker(ctx, bucket, marker); fault.Is(err, fault.Conflict) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return noConditionalPut(fmt.Errorf("s3: bucket %s was marked twice", bucket))
}

// probeWithoutBucket puts a marker into a bucket that does not exist. A store without
// conditional puts may reject that as not implemented; any other response proves nothing.
func (s *Store) probeWithoutBucket(ctx context.Context) error {
	bucket := "mediastack-probe-" + uuid.NewString()
	err := s.putMarker(ctx, bucket, nil)
	if err == nil { // the store creates buckets implicitly
		return errors.Join(s.Remove(ctx, bucket, []string{MarkerKey}), s.RemoveBucket(ctx, bucket))
	}
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// Readiness checks that the store responds and that it has conditional puts. A definite result
// is kept. Readiness is safe for concurrent use.
type Readiness struct {
	store       *Store
	ownedBucket func(ctx context.Context) (bucket string, err error)
	log         *slog.Logger

	mu      sync.Mutex
	probing bool
	probed  bool  // without a bucket; used only by the call that is probing
	known   bool  // result is final
	result  error // nil = the store has conditional puts, as far as it is known
}

// NewReadiness returns a Readiness. ownedBucket returns a bucket that has an owner marker, or
// an empty name while there is none: then only a store that reports it is known to have no
// conditional puts.
func NewReadiness(store *Store, ownedBucket func(ctx context.Context) (string, error), log *slog.Logger) *Readiness {
	return &Readiness{store: store, ownedBucket: ownedBucket, log: log}
}

// Check returns an Unavailable fault while the store does not respond, and if it can't be
// used. It changes nothing in the store.
func (r *Readiness) Check(ctx context.Context) error {
	if err := r.store.Ping(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known || r.probing { // it does not wait for the probe of another call
		return r.result
	}
	r.probing = true
	r.mu.Unlock()
	proven, err := r.probe(ctx)
	r.mu.Lock()
	r.probing = false
	switch {
	case errors.Is(err, errNoConditionalPut):
		r.known, r.result = true, err
		r.log.ErrorContext(ctx, fault.From(err).Public, "error", err)
	case err == nil:
		r.known = proven
	}
	return r.result // another error proves nothing: the next call probes again
}

// probe sends the probes. proven reports whether the store certainly has conditional puts.
func (r *Readiness) probe(ctx context.Context) (proven bool, err error) {
	if !r.probed {
		if err := r.store.probeWithoutBucket(ctx); err != nil {
			return false, err
		}
		r.probed = true
	}
	bucket, err := r.ownedBucket(ctx)
	if err != nil || bucket == "" {
		return false, err
	}
	marker, _, err := r.store.readMarker(ctx, bucket)
	if err != nil {
		return false, err
	}
	err = r.store.proveConditionalPut(ctx, bucket, marker)
	return err == nil, err
}
