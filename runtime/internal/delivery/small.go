package delivery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/lru"
	"mediastack.dev/runtime/media"
)

const (
	// maxSmall is the size of the largest object that is kept in memory: most thumbnails and pictures of presets.
	maxSmall = 64 << 10
	// smallOverhead is what one takes in memory besides its bytes.
	smallOverhead = 512
)

// smallObjects keeps the bytes of small objects, those that were read last. The bytes under a key never change, and a request
// reads them after the row of their item has permitted it, so nothing has to be invalidated. It is safe for concurrent use.
type smallObjects struct {
	objects Objects
	limit   int64 // in bytes; 0 = nothing is kept
	reads   *prometheus.CounterVec

	mu    sync.Mutex
	kept  *lru.Map[objectKey, []byte]
	bytes int64
}

// objectKey names the bytes of an object. The hash is part of it: what is kept is what the row of the item says.
type objectKey struct {
	bucket, key string
	sha256      [32]byte
}

// Values of the label source: where a small object was read from.
const (
	fromMemory = "memory"
	fromStore  = "object_store"
)

func newSmallObjects(objects Objects, limit int64, registry prometheus.Registerer) (*smallObjects, error) {
	s := &smallObjects{objects: objects, limit: limit, kept: lru.New[objectKey, []byte](int(limit/smallOverhead) + 1), reads: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mediastack_downloads_small_files_total", Help: "Downloads of files of up to 64 KiB, by where they were read from: `memory`, `object_store`.",
	}, []string{"source"})}
	for _, source := range []string{fromMemory, fromStore} {
		s.reads.WithLabelValues(source) // exported from the start, for rates
	}
	if registry == nil {
		return s, nil
	}
	return s, registry.Register(s.reads)
}

// holds reports whether read may be called for an object. nil holds none.
func (s *smallObjects) holds(object media.Object) bool {
	return s != nil && s.limit > 0 && object.Bytes > 0 && object.Bytes <= maxSmall && len(object.SHA256) == len(objectKey{}.sha256)
}

// read returns the bytes of an object, which the caller must not change.
func (s *smallObjects) read(ctx context.Context, bucket string, object media.Object) ([]byte, error) {
	key := objectKey{bucket, object.Key, [32]byte(object.SHA256)}
	s.mu.Lock()
	data, ok := s.kept.Get(key)
	s.mu.Unlock()
	if ok {
		s.reads.WithLabelValues(fromMemory).Inc()
		return data, nil
	}
	body, err := s.objects.Open(ctx, bucket, object.Key, 0, -1)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // it was read only
	data = make([]byte, object.Bytes)
	if n, err := io.ReadFull(body, data); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return nil, fault.Wrap(fmt.Errorf("%s has %d bytes instead of %d", object.Key, n, object.Bytes), fault.Unavailable, "the object store sent less than the file")
	} else if err != nil {
		return nil, err
	}
	s.reads.WithLabelValues(fromStore).Inc()
	s.keep(key, data)
	return data, nil
}

// keep keeps the bytes of an object.
func (s *smallObjects) keep(key objectKey, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.kept.Get(key); ok {
		return // another request was faster
	}
	s.kept.Put(key, data)
	s.bytes += int64(len(data)) + smallOverhead
	for s.bytes > s.limit {
		oldest, _ := s.kept.DeleteOldest()
		s.bytes -= int64(len(oldest)) + smallOverhead
	}
}
