package delivery

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

// bucketObjects are the objects of a store, by bucket and key.
type bucketObjects struct {
	mu      sync.Mutex
	objects map[string][]byte
	opened  int
}

// Open implements Objects.
func (b *bucketObjects) Open(_ context.Context, bucket, key string, _, _ int64) (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened++
	data, ok := b.objects[bucket+"/"+key]
	if !ok {
		return nil, fault.New(fault.NotFound, "no such object")
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func objectOf(key string, data []byte) media.Object {
	sum := sha256.Sum256(data)
	return media.Object{Key: key, Bytes: int64(len(data)), SHA256: sum[:]}
}

func newSmall(t *testing.T, store Objects, limit int64) *smallObjects {
	t.Helper()
	s, err := newSmallObjects(store, limit, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSmallObjects_AreReadOnce(t *testing.T) {
	t.Parallel()
	one, other := []byte("one"), []byte("other")
	store := &bucketObjects{objects: map[string][]byte{"a/k": one, "b/k": other, "a/l": other}}
	s := newSmall(t, store, 1<<20)
	for range 2 {
		for _, c := range []struct {
			bucket, key string
			want        []byte
		}{{"a", "k", one}, {"b", "k", other}, {"a", "l", other}} {
			got, err := s.read(t.Context(), c.bucket, objectOf(c.key, c.want))
			if err != nil || !bytes.Equal(got, c.want) {
				t.Errorf("%s/%s: %q, %v", c.bucket, c.key, got, err)
			}
		}
	}
	if store.opened != 3 {
		t.Errorf("three objects were opened %d times", store.opened)
	}
	if memory := testutil.ToFloat64(s.reads.WithLabelValues(fromMemory)); memory != 3 {
		t.Errorf("%.0f reads from memory are counted", memory)
	}
	// What the row says decides: other bytes under the same key are not those that are kept.
	store.objects["a/k"] = other
	if got, err := s.read(t.Context(), "a", objectOf("k", other)); err != nil || !bytes.Equal(got, other) {
		t.Errorf("after a change: %q, %v", got, err)
	}
}

func TestSmallObjects_KeepTheirBound(t *testing.T) {
	t.Parallel()
	const limit = 10 * (1000 + smallOverhead)
	store := &bucketObjects{objects: map[string][]byte{}}
	s := newSmall(t, store, limit)
	var objects []media.Object
	for i := range 30 {
		data := bytes.Repeat([]byte{byte(i)}, 1000)
		store.objects[fmt.Sprint("b/", i)] = data
		objects = append(objects, objectOf(fmt.Sprint(i), data))
	}
	read := func(i int) {
		if _, err := s.read(t.Context(), "b", objects[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i := range objects {
		read(i)
		read(0) // it is used all the time
		if s.bytes > limit || s.kept.Len() > 10 {
			t.Fatalf("%d bytes of %d objects are kept", s.bytes, s.kept.Len())
		}
	}
	before := store.opened
	read(0)
	for i := 21; i < 30; i++ {
		read(i)
	}
	if store.opened != before {
		t.Error("what was read last is not kept")
	}
	if read(20); store.opened != before+1 {
		t.Error("more is kept than the bound permits")
	}
}

func TestSmallObjects_ReadAtOnceAreKeptOnce(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte("x"), 1000)
	s := newSmall(t, &bucketObjects{objects: map[string][]byte{"b/k": data}}, 1<<20)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got, err := s.read(t.Context(), "b", objectOf("k", data)); err != nil || !bytes.Equal(got, data) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if s.kept.Len() != 1 || s.bytes != 1000+smallOverhead {
		t.Errorf("%d objects with %d bytes are kept", s.kept.Len(), s.bytes)
	}
}

func TestSmallObjects_KeepNothingOfAFailure(t *testing.T) {
	t.Parallel()
	data := []byte("0123456789")
	for what, c := range map[string]struct {
		stored []byte
		kind   fault.Kind
	}{"a lost object": {nil, fault.NotFound}, "a shorter object": {data[:5], fault.Unavailable}, "an empty object": {[]byte{}, fault.Unavailable}} {
		store := &bucketObjects{objects: map[string][]byte{}}
		if c.stored != nil {
			store.objects["b/k"] = c.stored
		}
		s := newSmall(t, store, 1<<20)
		for range 2 {
			if got, err := s.read(t.Context(), "b", objectOf("k", data)); got != nil || !fault.Is(err, c.kind) {
				t.Errorf("%s: %q, %v", what, got, err)
			}
		}
		if store.opened != 2 || s.kept.Len() != 0 || s.bytes != 0 {
			t.Errorf("%s: opened %d times, %d bytes are kept", what, store.opened, s.bytes)
		}
	}
}

func TestSmallObjects_HoldOnlySmallOnes(t *testing.T) {
	t.Parallel()
	small, off := newSmall(t, nil, 1<<20), newSmall(t, nil, 0)
	data := make([]byte, maxSmall+1)
	noHash := objectOf("k", data[:10])
	noHash.SHA256 = nil
	for what, c := range map[string]struct {
		of     *smallObjects
		object media.Object
		want   bool
	}{
		"a byte":              {small, objectOf("k", data[:1]), true},
		"64 KiB":              {small, objectOf("k", data[:maxSmall]), true},
		"more":                {small, objectOf("k", data), false},
		"nothing":             {small, objectOf("k", nil), false},
		"one without a hash":  {small, noHash, false},
		"with a bound of 0":   {off, objectOf("k", data[:1]), false},
		"without such a part": {nil, objectOf("k", data[:1]), false},
	} {
		if got := c.of.holds(c.object); got != c.want {
			t.Errorf("%s: %t", what, got)
		}
	}
}

// All responses of a small file are made of one read of the store.
func TestSend_SendsASmallFileFromMemory(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte("0123456789"), 1000)
	item := publicItem(len(data))
	item.Objects[0] = objectOf("k", data)
	item.Objects[0].Variant, item.Objects[0].MimeType = media.Original, "application/octet-stream"
	store := &bucketObjects{objects: map[string][]byte{"bucket/k": data}}
	d := newDelivery(t, item, store)
	d.small = newSmall(t, store, 1<<20)
	handler := withPictures(d, &maker{}, tenant())
	for ranges, want := range map[string]string{"": string(data), "bytes=5-14": "5678901234", "bytes=-3": "789", "bytes=0-1,10-11": "01"} {
		got := ask(handler, http.MethodGet, "original", "Range", ranges)
		if body := got.Body.String(); body != want && (ranges != "bytes=0-1,10-11" || !strings.Contains(body, want)) {
			t.Errorf("%q: %d with %d bytes", ranges, got.Code, len(body))
		}
	}
	if ask(handler, http.MethodHead, "original"); store.opened != 1 {
		t.Errorf("the object was opened %d times", store.opened)
	}
}
