package delivery

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// stored returns the bytes of one object, and fails where a test asks for it. It simulates
// failures of the object store that no real one makes on demand.
type stored struct {
	data    []byte
	breakAt int // fail when reading past this offset; 0 = never
	fail    error
	opened  int
	asked   int64
	closed  int
}

// Open reads as an object store does.
func (s *stored) Open(_ context.Context, _, _ string, offset, length int64) (io.ReadCloser, error) {
	if s.fail != nil {
		return nil, s.fail
	}
	s.opened++
	s.asked += length
	part := s.data[offset : offset+length]
	var reader io.Reader = bytes.NewReader(part)
	if s.breakAt > 0 && int(offset+length) > s.breakAt {
		reader = io.MultiReader(bytes.NewReader(s.data[offset:max(int(offset), s.breakAt)]), broken{})
	}
	return &closing{Reader: reader, closed: &s.closed}, nil
}

type closing struct {
	io.Reader
	closed *int
}

func (c *closing) Close() error { *c.closed++; return nil }

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the store went away") }

// one is the only item.
type one struct{ item media.Item }

// ForDelivery finds the item.
func (o one) ForDelivery(_ context.Context, id uuid.UUID) (media.Item, media.Owner, error) {
	if id != o.item.ID {
		return media.Item{}, media.Owner{}, fault.New(fault.NotFound, "no such item")
	}
	return o.item, media.Owner{Bucket: "bucket"}, nil
}

// noSettings are accounts for which nothing is set.
type noSettings struct{}

// Get returns nothing.
func (noSettings) Get(context.Context, uuid.UUID) (settings.Layers, error) {
	return settings.Layers{}, nil
}

func newDelivery(t testing.TB, item media.Item, objects Objects) *Delivery {
	t.Helper()
	secret, err := keys.ParseSecret(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("s"), 32)), "")
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(Config{TTL: time.Hour, PublicMaxAge: time.Minute, Mode: Stream}, Deps{BaseURL: "http://media.test/", Secret: secret, Items: one{item}, Objects: objects, Settings: noSettings{}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func publicItem(size int) media.Item {
	sealed := time.Unix(1e9, 0)
	return media.Item{ID: uuid.UUID{5}, FileName: "a.bin", Access: media.Public, CreatedAt: sealed, SealedAt: &sealed,
		Objects: media.Objects{{Variant: media.Original, Key: "k", Bytes: int64(size), MimeType: "application/octet-stream", SHA256: []byte{1}}}}
}

func TestSend_AbortsTheConnectionIfTheBodyBreaks(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	objects := &stored{data: data, breakAt: 700_000}
	d := newDelivery(t, publicItem(len(data)), objects)
	router := chi.NewRouter()
	d.Mount(router)
	server := httptest.NewServer(router)
	defer server.Close()
	for name, ranges := range map[string]string{"whole": "", "range": "bytes=10-900000", "ranges": "bytes=0-10,500000-900000"} {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/media/file/"+uuid.UUID{5}.String()+"/original/a", nil)
		request.Header.Set("Range", ranges)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			continue // cut before the client saw the header
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err == nil {
			t.Errorf("%s: a response of %d bytes looks complete", name, len(body))
		}
	}
	server.Close() // waits for the handlers
	if objects.closed != objects.opened {
		t.Errorf("%d of %d readers were closed", objects.closed, objects.opened)
	}
}

func TestSend_ReadsOnlyTheRequestedRanges(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte("0123456789"), 1_000_000)
	for name, tt := range map[string]struct {
		method, ranges string
		opened         int
		asked          int64
	}{
		"HEAD reads nothing":       {http.MethodHead, "", 0, 0},
		"the whole file at once":   {http.MethodGet, "", 1, int64(len(data))},
		"a range and no more":      {http.MethodGet, "bytes=5000000-5000009", 1, 10},
		"the end and no more":      {http.MethodGet, "bytes=-10", 1, 10},
		"several ranges, by parts": {http.MethodGet, "bytes=0-1,5000000-5000009", 2, 2 * readWindow},
	} {
		objects := &stored{data: data}
		d := newDelivery(t, publicItem(len(data)), objects)
		router := chi.NewRouter()
		d.Mount(router)
		request := httptest.NewRequest(tt.method, "/media/file/"+uuid.UUID{5}.String()+"/original/a", nil)
		request.Header.Set("Range", tt.ranges)
		router.ServeHTTP(httptest.NewRecorder(), request)
		if objects.opened != tt.opened || objects.asked != tt.asked {
			t.Errorf("%s: %d requests for %d bytes, want %d for %d", name, objects.opened, objects.asked, tt.opened, tt.asked)
		}
		if objects.closed != objects.opened {
			t.Errorf("%s: %d of %d readers were closed", name, objects.closed, objects.opened)
		}
	}
}

func TestContent_ReadsLikeTheFile(t *testing.T) {
	t.Parallel()
	data := make([]byte, 3<<20)
	source := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(source.Uint32())
	}
	c := &content{ctx: t.Context(), objects: &stored{data: data}, object: media.Object{Bytes: int64(len(data))}}
	for range 300 {
		offset := source.IntN(len(data) + 1)
		if _, err := c.Seek(int64(offset), io.SeekStart); err != nil {
			t.Fatal(err)
		}
		want := data[offset:min(len(data), offset+source.IntN(200_000))]
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("at %d: %d bytes differ, %v", offset, len(want), err)
		}
	}
	if _, err := c.Seek(-1, io.SeekStart); err == nil {
		t.Error("a seek before the file worked")
	}
	c.close()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a read after close gave %v", err)
	}
}

func FuzzVerify_AcceptsSignedURLsOnly(f *testing.F) {
	item := publicItem(1)
	item.Access = media.Private
	urls := newDelivery(f, item, nil).URLs()
	parsed, err := url.Parse(urls.URL(item, item.File(), settings.OriginalsPublic))
	if err != nil {
		f.Fatal(err)
	}
	expires, code := parsed.Query().Get("expires"), parsed.Query().Get("signature")
	f.Add(expires, code, "original", item.ID[:])
	f.Add(expires, code+"\n", "original", item.ID[:])
	f.Add("0", "", "thumbnail", []byte{})
	f.Add("-1", "AAAA", "", []byte("0123456789abcdef"))
	f.Fuzz(func(t *testing.T, gotExpires, gotCode, variant string, id []byte) {
		var itemID uuid.UUID
		copy(itemID[:], id)
		_, err := urls.verify(itemID, media.Variant(variant), gotExpires, gotCode)
		same := gotExpires == expires && gotCode == code && variant == "original" && itemID == item.ID
		if same != (err == nil) {
			t.Fatalf("verify gave %v", err)
		}
		if err != nil && !fault.Is(err, fault.InvalidSignature) {
			t.Fatalf("%v is not a bad signature", err)
		}
	})
}

func FuzzDisposition_IsOneSafeHeader(f *testing.F) {
	for _, seed := range []string{"a.jpg", `"; x=y`, "日本.png", "%22", "a\\b", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		item := publicItem(1)
		item.FileName = media.CleanFileName(raw)
		value := disposition(resolvedFile{item: item, object: item.Objects[0]})
		for _, b := range []byte(value) {
			if b < ' ' || b > '~' {
				t.Fatalf("%q holds a byte %x", value, b)
			}
		}
		if strings.Count(value, `"`) != 2 {
			t.Fatalf("%q can be read in two ways", value)
		}
		_, whole, _ := strings.Cut(value, "filename*=UTF-8''")
		if got, err := url.PathUnescape(whole); err != nil || got != item.FileName {
			t.Fatalf("%q gives %q, %v", value, got, err)
		}
	})
}

func TestDownloadName_DerivativesHaveTheirOwnExtension(t *testing.T) {
	t.Parallel()
	item := publicItem(1)
	item.FileName = "holiday.photo.jpeg"
	item.Objects = append(item.Objects,
		media.Object{Variant: media.WebP, MimeType: "image/webp", Bytes: 7}, media.Object{Variant: media.Thumbnail, MimeType: "image/png"})
	document := api.Documents{URLs: newDelivery(t, item, nil).URLs()}.Of(t.Context(), item.AccountID).Item(item)
	if !strings.HasSuffix(document.File, "/webp/holiday.photo.webp") || !strings.HasSuffix(document.Thumbnail, "/thumbnail/holiday.photo.png") {
		t.Errorf("%+v", document)
	}
	if document.OriginalFileName != "holiday.photo.jpeg" || document.MimeType != "image/webp" || document.Size != 7 {
		t.Errorf("%+v", document)
	}
}
