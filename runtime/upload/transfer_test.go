package upload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/media"
)

// heldStore keeps each part until proceed is closed, and then reads it twice, as after a failure.
type heldStore struct {
	media.Multipart
	proceed <-chan struct{}
	stored  hash.Hash
}

// Part implements media.Multipart.
func (s *heldStore) Part(_ context.Context, body io.ReadSeeker, size int64) error {
	<-s.proceed
	first, err := io.ReadAll(body)
	if err != nil || int64(len(first)) != size {
		return fmt.Errorf("%d bytes of %d, %w", len(first), size, err)
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if again, err := io.ReadAll(body); err != nil || !bytes.Equal(first, again) {
		return fmt.Errorf("a part reads otherwise again: %w", err)
	}
	_, _ = s.stored.Write(first)
	return nil
}

// send sends a file in parts.
func (t *transfer) send(ctx context.Context, file io.Reader) error {
	for {
		t.setNext(t.partSize)
		ended, err := t.fill(ctx, file, t.partSize, func() error { return nil })
		switch {
		case err != nil:
			return err
		case ended:
			return t.sendRest(ctx)
		}
		if err := t.beginPart(ctx, t.partSize); err != nil {
			return err
		}
	}
}

// 16 uploads once held 160 MiB: each received a part while it sent one, where one part of each keeps the object store busy.
func TestTransfers_ReceiveAheadWithinAnEighthOfTheMemory(t *testing.T) {
	t.Parallel()
	const size = 3*PartSize + 12345
	for name, c := range map[string]struct {
		slots, transfers int
		least, most      int64
	}{
		"one has a part and the next one":                              {8, 1, bufferSize, bufferSize},
		"each has a part, and some of them the next one":               {8, 8, 8 * PartSize, bufferSize + 8*(PartSize+2*chunkSize)},
		"those without a slot have what each may":                      {8, 12, 8*PartSize + 4*inlineLimit, bufferSize + 8*(PartSize+2*chunkSize) + 4*(inlineLimit+chunkSize)},
		"one after the other gets to its end with the least of memory": {1, 5, PartSize + 4*inlineLimit, PartSize + 2*chunkSize + 4*(inlineLimit+chunkSize)},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := Config{MaxUploads: c.transfers, UploadMemory: int64(c.slots) * bufferSize, UploadPerAccountPercent: 100, UploadQueueTimeout: time.Hour}
			s := &Service{cfg: cfg, limits: testLimits(t, cfg), newHash: sha256.New}
			a := account.Account{MaxUploadSize: MaxFile}
			proceed := make(chan struct{})
			var all sync.WaitGroup
			for n := range c.transfers {
				all.Go(func() {
					file := make([]byte, size)
					_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(file)
					store := &heldStore{proceed: proceed, stored: sha256.New()}
					one := s.newTransfer(a, &reservation{scope: media.Scope{AccountID: uuid.New()}}, size, PartSize)
					one.multipart = store
					err := one.send(t.Context(), bytes.NewReader(file))
					if sum := sha256.Sum256(file); err != nil || !bytes.Equal(one.digest.sum(), sum[:]) || !bytes.Equal(store.stored.Sum(nil), sum[:]) {
						t.Errorf("%s: %v; %x was stored with the hash %x, want %x", name, err, store.stored.Sum(nil), one.digest.sum(), sum)
					}
					one.close()
				})
			}
			synctest.Wait()
			if held := s.buffered.Load(); held < c.least || held > c.most {
				t.Errorf("%s: %d KiB are held, want %d to %d", name, held>>10, c.least>>10, c.most>>10)
			}
			close(proceed)
			all.Wait()
			if held := s.buffered.Load(); held != 0 || s.limits.partMemory.InFlight() != 0 {
				t.Errorf("%s: %d bytes and %d slots are held after the end", name, held, s.limits.partMemory.InFlight())
			}
		})
	}
}

// The object store accepts no other part under 5 MiB than the last one, and 10,000 of them.
func TestNextPart_DividesARequestIntoPartsOfAboutTheSameSize(t *testing.T) {
	t.Parallel()
	sizes := []int64{MaxSinglePut + 1, bufferSize - 1, bufferSize, bufferSize + 1, 3*PartSize - 1, 64 << 20, 100_000_000, 1 << 30, maxParts * PartSize, 60 << 30, MaxFile - 1, MaxFile}
	for range 200 {
		sizes = append(sizes, MaxSinglePut+rand.Int64N(1<<rand.IntN(37)))
	}
	for _, size := range sizes {
		r := &Resumable{state: ResumableState{Length: size}}
		partSize := r.partSize()
		one := &transfer{partSize: partSize, multipart: &heldStore{}}
		var parts []int64
		for one.size < size {
			n, most := r.nextPart(one, 0, size)
			if most == MaxSinglePut && size-one.size <= MaxSinglePut {
				n = int(size - one.size)
			} else if most != n && most != n-1 || n%chunkSize != 0 {
				t.Fatalf("of %d bytes a part of %d is sent when more than %d have arrived", size, n, most)
			}
			parts = append(parts, int64(n))
			one.size += int64(n)
		}
		all := parts[:len(parts)-1]
		if rest := parts[len(parts)-1]; len(parts) > maxParts || rest > MaxSinglePut || rest < int64(partSize) && size > MaxSinglePut && size >= 2*int64(partSize) {
			t.Errorf("%d bytes became %d parts, of which the last one has %d", size, len(parts), rest)
		}
		for _, n := range all {
			if n < int64(partSize) || n > min(MaxSinglePut, int64(partSize)*3/2) || len(all) > 1 && n > all[0]+chunkSize {
				t.Errorf("%d bytes in parts of at least %d have one of %d beside %d", size, partSize, n, all[0])
				break
			}
		}
	}
}
