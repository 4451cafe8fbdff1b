package upload_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/upload"
)

// partStore is the real store. It calls onPart before it stores a part of size bytes.
type partStore struct {
	*objectstore.Store
	onPart func(number int, size int64) error
}

func (s *partStore) StartMultipart(ctx context.Context, bucket, key, contentType string) (media.Multipart, error) {
	parts, err := s.Store.StartMultipart(ctx, bucket, key, contentType)
	return &partUpload{parts, s}, err
}

func (s *partStore) ResumeMultipart(bucket, key, id string, parts []media.Part) media.Multipart {
	return &partUpload{s.Store.ResumeMultipart(bucket, key, id, parts), s}
}

type partUpload struct {
	media.Multipart
	store *partStore
}

func (p *partUpload) Part(ctx context.Context, body io.ReadSeeker, size int64) error {
	if err := p.store.onPart(len(p.Parts())+1, size); err != nil {
		return err
	}
	return p.Multipart.Part(ctx, body, size)
}

// countedReader counts what is read of a file.
type countedReader struct {
	io.Reader
	read atomic.Int64
}

func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.read.Add(int64(n))
	return n, err
}

// progressCounter counts what is written to the database of an upload in progress.
type progressCounter struct {
	upload.Store
	saved atomic.Int64
}

func (s *progressCounter) SaveProgress(ctx context.Context, id uuid.UUID, before int64, p upload.Progress, expires time.Time) error {
	s.saved.Add(1)
	return s.Store.SaveProgress(ctx, id, before, p, expires)
}

// While a part is sent, the next one arrives, and no more than that: an upload holds 10 MiB.
func TestUpload_ReceivesAPartWhileOneIsSentAndHoldsTenMebibytes(t *testing.T) {
	t.Parallel()
	const buffer = 10 << 20
	b := setup(t)
	p := b.Tenant(1 << 30)
	for name, run := range map[string]func(uploads *upload.Service, file io.Reader, size int) error{
		"one request": func(uploads *upload.Service, file io.Reader, _ int) error {
			_, err := uploadFile(t.Context(), uploads, p, file, media.Fields{})
			return err
		},
		"resumable": func(uploads *upload.Service, file io.Reader, size int) error {
			r, err := uploads.CreateResumable(t.Context(), p, int64(size), media.Fields{}, "")
			must(t, err)
			if _, err = r.Append(t.Context(), 0, file, int64(size), nil); err == nil {
				_, err = r.Finish(t.Context())
			}
			return err
		},
	} {
		file := &countedReader{Reader: bytes.NewReader(random(38 << 20))}
		parts, proceed, ended := make(chan int64), make(chan struct{}), make(chan error, 1)
		store := &partStore{b.Objects, func(_ int, size int64) error { parts <- size; <-proceed; return nil }}
		go func() {
			ended <- run(b.Another(mediatest.Config, mediatest.Over(store)).Uploads, file, 38<<20)
			close(parts)
		}()
		sent, number, overlapped := int64(0), 0, false
		for size := range parts {
			number++
			held := func() int64 { return file.read.Load() - sent }
			left := 38<<20 - sent
			wait.Until(t, name+": the file goes on to arrive", func() bool { return held() >= min(buffer, left) })
			overlapped = overlapped || number > 1
			if held() > buffer {
				t.Errorf("%s: %d bytes are held with part %d", name, held(), number)
			}
			sent += size
			proceed <- struct{}{}
		}
		if err := <-ended; err != nil || !overlapped {
			t.Errorf("%s: %v, %t", name, err, overlapped)
		}
	}
	b.Balanced(p)
}

// What is too little for one more part of a request of known size is divided among its parts: otherwise it
// would be stored as an object of its own, and read again by the next request. One part that had all of it
// would need more memory.
func TestResumable_RequestsOfKnownSizeLeaveNoIncompletePart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	for _, c := range []struct {
		size, declared int
		parts          []int64 // in KiB
		incomplete     int64
	}{
		{64, 64, []int64{5376, 5376, 5376, 5376, 5376, 5376, 5376, 5376, 5632, 5632, 5632, 5632}, 0},
		{21, 21, []int64{5376, 5376, 5376, 5376}, 0},
		{14, 14, []int64{7168, 7168}, 0},
		{10, 10, []int64{5120, 5120}, 0},
		{8, 8, []int64{8192}, 0},
		{21, -1, []int64{5120, 5120, 5120, 5120}, 1},
		{21, 40, []int64{5120, 5120, 5120, 5120}, 1}, // it was cut
	} {
		file := random(c.size << 20)
		r := b.create(p, 100<<20)
		declared := int64(c.declared)
		if declared > 0 {
			declared <<= 20
		}
		must(t, check.ErrorOf(r.Append(t.Context(), 0, bytes.NewReader(file), declared, nil)))
		var sizes []int64
		for _, part := range r.State().Progress.Parts {
			sizes = append(sizes, part.Bytes>>10)
		}
		if got := r.State().Progress; !slices.Equal(sizes, c.parts) || got.IncompleteBytes != c.incomplete<<20 || got.Received != int64(c.size)<<20 {
			t.Errorf("%d MiB of %d became %v and %d, of %d", c.size, c.declared, sizes, got.IncompleteBytes, got.Received)
		}
		must(t, r.Cancel(t.Context()))
	}
}

// Each part would otherwise cost a transaction that writes the list of all parts.
func TestResumable_SavesItsProgressAfterThreeParts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	counter := &progressCounter{Store: b.Store.Uploads}
	replica := b.Another(mediatest.Config, func(deps *upload.Deps) { deps.Store = counter })
	r, err := replica.Uploads.CreateResumable(t.Context(), p, 100<<20, media.Fields{}, "")
	must(t, err)
	must(t, check.ErrorOf(r.Append(t.Context(), 0, bytes.NewReader(random(64<<20)), 64<<20, nil)))
	// The id of the multipart upload, the first part, three times three parts, the end.
	if got := counter.saved.Load(); got != 6 {
		t.Errorf("the progress of 12 parts was saved %d times", got)
	}
	must(t, r.Cancel(t.Context()))
}

// When the object store fails, the parts that it had stored are kept, also those that were not saved.
func TestResumable_KeepsThePartsBeforeAFailureOfTheObjectStore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	var once sync.Once
	errDown := errors.New("down")
	store := &partStore{b.Objects, func(number int, _ int64) (err error) {
		if number == 4 {
			once.Do(func() { err = errDown })
		}
		return err
	}}
	replica := b.Another(mediatest.Config, mediatest.Over(store))
	file := random(40 << 20)
	for _, verify := range []func() error{nil, func() error { return nil }} {
		once = sync.Once{}
		r, err := replica.Uploads.CreateResumable(t.Context(), p, int64(len(file)), media.Fields{}, "")
		must(t, err)
		kept := int64(3 * upload.PartSize)
		if verify != nil {
			kept = 0 // they are not verified
		}
		n, err := r.Append(t.Context(), 0, bytes.NewReader(file), -1, verify)
		if n != kept || !errors.Is(err, errDown) {
			t.Fatalf("%d bytes are kept, %v", n, err)
		}
		r = b.resume(replica.Uploads, p, r)
		must(t, check.ErrorOf(r.Append(t.Context(), n, bytes.NewReader(file[n:]), -1, nil)))
		must(t, check.ErrorOf(r.Finish(t.Context())))
		b.settled(p, r, file)
	}
}

// More than a request announced may have arrived when its first part is sent: the second one is then in the buffer already. The hash
// continues after it.
func TestResumable_ContinuesAfterAPartThatHadArrivedBeforeThePreviousOneWasSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	var once sync.Once
	errDown := errors.New("down")
	store := &partStore{b.Objects, func(number int, _ int64) (err error) {
		if number == 3 {
			once.Do(func() { err = errDown })
		}
		return err
	}}
	replica := b.Another(mediatest.Config, mediatest.Over(store))
	file := random(20 << 20)
	r, err := replica.Uploads.CreateResumable(t.Context(), p, int64(len(file)), media.Fields{}, "")
	must(t, err)
	n, err := r.Append(t.Context(), 0, bytes.NewReader(file), 8<<20, nil)
	if n != 2*upload.PartSize || !errors.Is(err, errDown) {
		t.Fatalf("%d bytes are kept, %v", n, err)
	}
	r = b.resume(replica.Uploads, p, r)
	must(t, check.ErrorOf(r.Append(t.Context(), n, bytes.NewReader(file[n:]), int64(len(file))-n, nil)))
	must(t, check.ErrorOf(r.Finish(t.Context())))
	b.settled(p, r, file)
}
