package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
)

// Stores that the tests do not run are simulated by a proxy in front of a real one, which
// changes the one response in which they differ.

// cephRGW answers as Ceph RGW does for a multipart upload that is gone: Complete with an
// internal error, the list of its parts and a part with NoSuchKey.
func cephRGW(gone func() bool) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case !gone() || !r.URL.Query().Has("uploadId"):
			return false
		case r.Method == http.MethodPost:
			s3Error(w, http.StatusInternalServerError, "InternalError")
		case r.Method == http.MethodGet, r.Method == http.MethodPut:
			_, _ = io.Copy(io.Discard, r.Body)
			s3Error(w, http.StatusNotFound, "NoSuchKey")
		default:
			return false
		}
		return true
	}
}

// A resumable upload that had lost its parts in Ceph RGW was once blocked until it expired,
// because only NoSuchUpload was recognized.
func TestMultipart_PartsLostWhenCephRGWDoesNotKnowTheUpload(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	var gone atomic.Bool
	store := between(t, access, cephRGW(gone.Load))
	bucket, _ := claimed(t, store)
	upload, err := store.StartMultipart(t.Context(), bucket, "media/x/original", "image/png")
	must(t, err)
	must(t, upload.Part(t.Context(), strings.NewReader("abc"), 3))
	must(t, upload.Abort(t.Context()))
	gone.Store(true)
	if err := upload.Complete(t.Context(), "image/png"); !errors.Is(err, media.ErrPartsLost) || !fault.Is(err, fault.Unavailable) {
		t.Errorf("complete of an upload that is gone: %v", err)
	}
	if err := upload.Part(t.Context(), strings.NewReader("def"), 3); !errors.Is(err, media.ErrPartsLost) || !fault.Is(err, fault.Unavailable) {
		t.Errorf("a part of an upload that is gone: %v", err)
	}
}

func TestMultipart_PartsLostWhenTheUploadIsGone(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket, _ := claimed(t, store)
		upload, err := store.StartMultipart(t.Context(), bucket, "media/x/original", "image/png")
		must(t, err)
		must(t, upload.Part(t.Context(), strings.NewReader("abc"), 3))
		must(t, store.AbortIncomplete(t.Context(), bucket, "media/x/original"))
		if err := upload.Complete(t.Context(), "image/png"); !errors.Is(err, media.ErrPartsLost) || !fault.Is(err, fault.Unavailable) {
			t.Errorf("complete: %v", err)
		}
		if err := upload.Part(t.Context(), strings.NewReader("def"), 3); !errors.Is(err, media.ErrPartsLost) || !fault.Is(err, fault.Unavailable) {
			t.Errorf("a part: %v", err)
		}
		must(t, upload.Abort(t.Context()))
	})
}

func TestComplete_CanBeRepeated(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket, _ := claimed(t, store)
		upload, err := store.StartMultipart(t.Context(), bucket, "media/x/original", "image/png")
		must(t, err)
		must(t, upload.Part(t.Context(), strings.NewReader("abc"), 3))
		for range 3 {
			must(t, upload.Complete(t.Context(), "image/png"))
		}
		if got := read(t, store, bucket, "media/x/original", 0, -1); string(got) != "abc" {
			t.Errorf("the object is %q", got)
		}
	})
}

func TestComplete_RetriesAfterCephRGWRejects(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	var rejecting atomic.Bool
	store := between(t, access, func(w http.ResponseWriter, r *http.Request) bool {
		if !rejecting.Load() || r.Method != http.MethodPost || !r.URL.Query().Has("uploadId") {
			return false
		}
		s3Error(w, http.StatusInternalServerError, "InternalError")
		return true
	})
	bucket, _ := claimed(t, store)
	upload, err := store.StartMultipart(t.Context(), bucket, "media/x/original", "image/png")
	must(t, err)
	must(t, upload.Part(t.Context(), strings.NewReader("abc"), 3))
	rejecting.Store(true)
	if err := upload.Complete(t.Context(), "image/png"); errors.Is(err, media.ErrPartsLost) || !fault.Is(err, fault.Unavailable) {
		t.Errorf("the parts are there, and Complete returned %v", err)
	}
	rejecting.Store(false)
	must(t, upload.Complete(t.Context(), "image/png"))
	rejecting.Store(true)
	must(t, upload.Complete(t.Context(), "image/png")) // the object exists, although the store reports an error
	if got := read(t, store, bucket, "media/x/original", 0, -1); string(got) != "abc" {
		t.Errorf("the object is %q", got)
	}
}

// Ceph RGW rejects a Complete while an earlier one is in progress, which may end at any moment.
func TestComplete_SucceedsWhenAnotherRequestCompletesMeanwhile(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	direct := open(t, access)
	bucket, _ := claimed(t, direct)
	upload, err := direct.StartMultipart(t.Context(), bucket, "media/x/original", "image/png")
	must(t, err)
	must(t, upload.Part(t.Context(), strings.NewReader("abc"), 3))
	looks := 0
	store := between(t, access, func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Method == http.MethodPost && r.URL.Query().Has("uploadId"):
			s3Error(w, http.StatusConflict, "OperationAborted")
		case r.Method == http.MethodHead:
			if looks++; looks > 1 {
				return false
			}
			w.WriteHeader(http.StatusNotFound)
			if err := upload.Complete(r.Context(), "image/png"); err != nil {
				t.Errorf("the earlier one: %v", err)
			}
		default:
			return false
		}
		return true
	})
	must(t, store.ResumeMultipart(bucket, "media/x/original", upload.ID(), upload.Parts()).Complete(t.Context(), "image/png"))
}

// OpenStack Swift lists incomplete uploads without an UploadId: their removal once always
// failed, and with it the deletion of items and accounts.
func TestListIncomplete_SkipsEntriesWithoutUploadID(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	const listing = `<ListMultipartUploadsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>false</IsTruncated>` +
		`<Upload><Key>media/x/original</Key></Upload></ListMultipartUploadsResult>`
	store := between(t, access, func(w http.ResponseWriter, r *http.Request) bool {
		switch query := r.URL.Query(); {
		case r.Method == http.MethodGet && query.Has("uploads"):
			w.Header().Set("Content-Type", "application/xml")
			_, _ = io.WriteString(w, listing)
		case r.Method == http.MethodDelete && query.Has("uploadId") && query.Get("uploadId") == "":
			t.Error("an upload without an id was aborted")
			s3Error(w, http.StatusBadRequest, "InvalidRequest")
		default:
			return false
		}
		return true
	})
	bucket, _ := claimed(t, store)
	must(t, store.AbortIncomplete(t.Context(), bucket, "media/x/original"))
	must(t, store.ListIncomplete(t.Context(), bucket, "", func(u media.IncompleteUpload) error {
		t.Errorf("listed %+v", u)
		return nil
	}))
	_, err := store.Drain(t.Context(), bucket, "", always)
	must(t, err)
	must(t, store.RemoveDrained(t.Context(), bucket))
}

// withoutConditionalPut are stores that the service can't be used with.
func withoutConditionalPut(t *testing.T, access testenv.S3Access) map[string]func(w http.ResponseWriter, r *http.Request) bool {
	t.Helper()
	direct := open(t, access)
	conditional := func(r *http.Request) bool { return r.Method == http.MethodPut && r.Header.Get("If-None-Match") == "*" }
	return map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"it rejects the condition, as OpenStack Swift does": func(w http.ResponseWriter, r *http.Request) bool {
			if conditional(r) {
				s3Error(w, http.StatusNotImplemented, "NotImplemented")
			}
			return conditional(r)
		},
		"it ignores the condition": func(w http.ResponseWriter, r *http.Request) bool {
			if !conditional(r) {
				return false
			}
			bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
			if exists, err := direct.BucketExists(r.Context(), bucket); err != nil || !exists {
				s3Error(w, http.StatusNotFound, "NoSuchBucket")
				return true
			}
			marker, _ := io.ReadAll(r.Body)
			if err := direct.Put(r.Context(), bucket, key, "application/json", bytes.NewReader(marker), int64(len(marker))); err != nil {
				s3Error(w, http.StatusInternalServerError, "InternalError")
				return true
			}
			w.Header().Set("ETag", `"1"`)
			return true
		},
	}
}

const notSupported = "does not support conditional puts (If-None-Match: *)"

func TestClaim_RejectedByAStoreWithoutConditionalPut(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	for name, answer := range withoutConditionalPut(t, access) {
		store, bucket := between(t, access, answer), "b-"+uuid.NewString()
		for range 2 { // repeated
			result, err := store.Claim(t.Context(), newClaim(bucket))
			if result != objectstore.ClaimUnchanged || !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.From(err).Public, notSupported) {
				t.Errorf("%s: %v, %v", name, result, err)
			}
		}
		if _, err := open(t, access).Owner(t.Context(), bucket); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: the bucket's owner is %v", name, err)
		}
	}
}

// objectsOf are the objects of a bucket with the time of their last change.
func objectsOf(t *testing.T, store *objectstore.Store, bucket string) (all []media.ObjectInfo) {
	t.Helper()
	must(t, store.List(t.Context(), bucket, "", func(o media.ObjectInfo) error { all = append(all, o); return nil }))
	return all
}

func TestReadiness_ReportsAStoreWithoutConditionalPut(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	for name, answer := range withoutConditionalPut(t, access) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bucket, owner := claimed(t, open(t, access))
			known := ""
			var log bytes.Buffer
			ready := objectstore.NewReadiness(objectstore.ReadinessConfig{}, between(t, access, answer), func(context.Context) (string, error) { return known, nil }, slog.New(slog.NewTextHandler(&log, nil)))
			err := ready.Check(t.Context())
			if rejects := strings.HasPrefix(name, "it rejects"); rejects != (err != nil) {
				t.Errorf("without a bucket: %v", err)
			}
			known = bucket
			for range 3 {
				if err := ready.Check(t.Context()); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), notSupported) {
					t.Errorf("with a bucket: %v", err)
				}
			}
			if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
				t.Errorf("it was logged %d times: %s", n, log.String())
			}
			if found, err := open(t, access).Owner(t.Context(), bucket); err != nil || found != owner || len(objectsOf(t, open(t, access), bucket)) != 1 {
				t.Errorf("the bucket's owner is %+v, %v, and was %+v", found, err, owner)
			}
		})
	}
}

func TestReadiness_LeavesNothingBehind(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket, _ := claimed(t, store)
		before := objectsOf(t, store, bucket)
		asked := 0
		ready := objectstore.NewReadiness(objectstore.ReadinessConfig{}, store, func(context.Context) (string, error) { asked++; return bucket, nil }, slog.New(slog.DiscardHandler))
		for range 3 {
			must(t, ready.Check(t.Context()))
		}
		if after := objectsOf(t, store, bucket); len(after) != 1 || after[0] != before[0] {
			t.Errorf("the bucket holds %+v, and held %+v", after, before)
		}
		if asked != 1 {
			t.Errorf("the store was probed %d times", asked)
		}
	})
}

// A bucket that is missing, or a database that is away, says nothing about the store.
func TestReadiness_ProbesAgainUntilTheResultIsKnown(t *testing.T) {
	t.Parallel()
	store := open(t, testenv.S3(t))
	bucket, _ := claimed(t, store)
	answers := []func() (string, error){
		func() (string, error) { return "", nil },
		func() (string, error) { return "", fault.New(fault.Unavailable, "the database can't be reached") },
		func() (string, error) { return "b-" + uuid.NewString(), nil },
		func() (string, error) { return bucket, nil },
	}
	asked := 0
	ready := objectstore.NewReadiness(objectstore.ReadinessConfig{}, store, func(context.Context) (string, error) { asked++; return answers[asked-1]() }, slog.New(slog.DiscardHandler))
	for range len(answers) + 2 {
		must(t, ready.Check(t.Context()))
	}
	if asked != len(answers) {
		t.Errorf("asked %d times", asked)
	}
}

func TestReadiness_UnavailableWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	server := testenv.S3Server(t)
	store := open(t, server.Server.Access)
	bucket, _ := claimed(t, store)
	ready := objectstore.NewReadiness(objectstore.ReadinessConfig{}, store, func(context.Context) (string, error) { return bucket, nil }, slog.New(slog.DiscardHandler))
	must(t, ready.Check(t.Context()))
	server.Kill()
	if err := ready.Check(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("the store is down: %v", err)
	}
	server.Start()
	must(t, ready.Check(t.Context()))
}
