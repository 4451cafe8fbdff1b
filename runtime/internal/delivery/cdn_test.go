package delivery

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

// versioned returns a public item of these bytes, and its version.
func versioned(data []byte) (media.Item, string) {
	item := publicItem(len(data))
	sum := sha256.Sum256(data)
	item.Objects[0].SHA256 = sum[:]
	return item, hex.EncodeToString(sum[:])[:12]
}

// purging returns a CDN that purges, with tags that say what they are of.
func purging() *CDN {
	return &CDN{Header: "Cache-Tag", Separator: ",", Tags: func(_ media.Item, preset string) []string {
		return append([]string{"item", "account"}, strings.Fields(preset)...)
	}}
}

// fetched asks for the original by a query.
func fetched(d *Delivery, query string, headers ...string) *httptest.ResponseRecorder {
	return fetchedVariant(d, media.Original, query, headers...)
}

func fetchedVariant(d *Delivery, variant media.Variant, query string, headers ...string) *httptest.ResponseRecorder {
	router := chi.NewRouter()
	d.Mount(router)
	request := httptest.NewRequest(http.MethodGet, "/media/file/"+uuid.UUID{5}.String()+"/"+string(variant)+"/a.bin?"+query, nil)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	router.ServeHTTP(recorder, request)
	return recorder
}

func TestCaching_SaysHowLongWhichCacheKeepsAFile(t *testing.T) {
	t.Parallel()
	data := []byte("bytes of a file")
	public, version := versioned(data)
	private := public
	private.Access = media.Private
	for name, c := range map[string]struct {
		item                media.Item
		cdn                 *CDN
		query               string
		control, kept, tags string
	}{
		"without a CDN":                           {public, nil, "", "public, max-age=60", "", ""},
		"the right version without a CDN":         {public, nil, "v=" + version, "public, max-age=31536000, immutable, s-maxage=60", "", ""},
		"a wrong version":                         {public, purging(), "v=000000000000", "public, max-age=60", "max-age=31536000", "item,account"},
		"the beginning of the version":            {public, purging(), "v=" + version[:11], "public, max-age=60", "max-age=31536000", "item,account"},
		"no version":                              {public, purging(), "", "public, max-age=60", "max-age=31536000", "item,account"},
		"the right version":                       {public, purging(), "v=" + version, "public, max-age=31536000, immutable", "max-age=31536000", "item,account"},
		"other parameters":                        {public, purging(), "a=b&v=" + version + "&expires=1&signature=x", "public, max-age=31536000, immutable", "max-age=31536000", "item,account"},
		"a CDN whose purges are not recorded yet": {public, &CDN{Header: "Cache-Tag", Tags: func(media.Item, string) []string { return nil }}, "", "public, max-age=60", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDelivery(t, c.item, &stored{data: data})
			d.cdn = c.cdn
			response := fetched(d, c.query)
			header := response.Header()
			if response.Code != http.StatusOK || header.Get("Cache-Control") != c.control || header.Get("CDN-Cache-Control") != c.kept || header.Get("Cache-Tag") != c.tags || header.Get("Surrogate-Control") != "" {
				t.Errorf("%d %v", response.Code, header)
			}
		})
	}
	t.Run("private", func(t *testing.T) {
		d := newDelivery(t, private, &stored{data: data})
		d.cdn = purging()
		address := d.URLs().URL(private, private.Objects[0], settings.OriginalsPublic)
		if strings.Contains(address, "v=") {
			t.Errorf("the address is %s", address)
		}
		_, query, _ := strings.Cut(address, "?")
		header := fetched(d, query+"&v="+version).Header()
		if !strings.HasPrefix(header.Get("Cache-Control"), "private, max-age=") || header.Get("CDN-Cache-Control") != "" || header.Get("Cache-Tag") != "" {
			t.Errorf("%v", header)
		}
	})
	t.Run("surrogates", func(t *testing.T) {
		d := newDelivery(t, public, &stored{data: data})
		d.cdn = purging()
		d.cdn.Header, d.cdn.Separator = "Surrogate-Key", " "
		if header := fetched(d, "").Header(); header.Get("Surrogate-Key") != "item account" || header.Get("Surrogate-Control") != "max-age=31536000" {
			t.Errorf("%v", header)
		}
	})
}

// An answer that is not the file is kept by nobody.
func TestCaching_ErrorsHaveNoTags(t *testing.T) {
	t.Parallel()
	data := []byte("bytes of a file")
	item, version := versioned(data)
	for name, c := range map[string]struct {
		objects *stored
		headers []string
		status  int
	}{
		"a range outside":        {&stored{data: data}, []string{"Range", "bytes=100-"}, http.StatusRequestedRangeNotSatisfiable},
		"a precondition":         {&stored{data: data}, []string{"If-Match", `"other"`}, http.StatusPreconditionFailed},
		"an object store, away":  {&stored{fail: fault.New(fault.Unavailable, "away")}, nil, http.StatusServiceUnavailable},
		"an object that is lost": {&stored{fail: fault.New(fault.NotFound, "lost")}, nil, http.StatusInternalServerError},
	} {
		d := newDelivery(t, item, c.objects)
		d.cdn = purging()
		d.cdn.Header = surrogateKey
		response := fetched(d, "v="+version, c.headers...)
		header := response.Header()
		if response.Code != c.status || header.Get(surrogateKey) != "" || header.Get(surrogateControl) != "" || header.Get(cdnCacheControl) != "" || strings.Contains(header.Get("Cache-Control"), "public") {
			t.Errorf("%s: %d %v", name, response.Code, header)
		}
	}
}

// slow is an object store that takes a while to answer.
type slow struct {
	*stored
	after time.Duration
}

// Open waits.
func (s slow) Open(ctx context.Context, bucket, key string, offset, length int64) (io.ReadCloser, error) {
	time.Sleep(s.after) //nolint:forbidigo // the clock of synctest
	return s.stored.Open(ctx, bucket, key, offset, length)
}

// The purges of a change are sent within some seconds. An answer that was authorized before the change and arrives after them would stay for a year.
func TestCaching_ALateAnswerIsNotKept(t *testing.T) {
	t.Parallel()
	data := []byte("bytes of a file")
	item, version := versioned(data)
	for late, want := range map[time.Duration]string{time.Second: "max-age=31536000", 3 * time.Second: "no-store"} {
		synctest.Test(t, func(t *testing.T) {
			d := newDelivery(t, item, slow{&stored{data: data}, late})
			d.cdn = purging()
			response := fetched(d, "v="+version)
			header := response.Header()
			if got := header.Get(cdnCacheControl); response.Code != http.StatusOK || got != want {
				t.Errorf("after %s: %d, %q", late, response.Code, got)
			}
			if want == "no-store" && (header.Get("Cache-Tag") != "" || header.Get("Cache-Control") != "no-cache") {
				t.Errorf("after %s: %v", late, header)
			}
		})
	}
}

// slowMaker takes a while to make a picture.
type slowMaker struct {
	*maker
	after time.Duration
}

// Get waits.
func (s slowMaker) Get(ctx context.Context, item media.Item, owner media.Owner, request rendition.Request) (rendition.Result, error) {
	time.Sleep(s.after) //nolint:forbidigo // the clock of synctest
	return s.maker.Get(ctx, item, owner, request)
}

// The client is authorized again before a picture is sent that took long, but the preset may be another one since.
func TestCaching_APictureThatTookLongIsNotKept(t *testing.T) {
	t.Parallel()
	preset := settings.Preset{Name: "hero", Width: 100, Densities: []int{1}, Format: settings.FormatWebP}
	for late, want := range map[time.Duration]string{time.Second: "max-age=31536000", 3 * time.Second: "no-store"} {
		synctest.Test(t, func(t *testing.T) {
			d := newDelivery(t, imageItem(), &stored{})
			d.cdn = purging()
			handler := withPictures(d, &maker{}, tenant(preset))
			d.renditions = slowMaker{&maker{}, late}
			if response := ask(handler, http.MethodGet, "hero", "Accept", "image/webp"); response.Code != http.StatusOK || response.Header().Get(cdnCacheControl) != want {
				t.Errorf("after %s: %d %v", late, response.Code, response.Header())
			}
		})
	}
}

// The tags of a picture name its preset; no address of one has a version, because its bytes are not known before it is made.
func TestCaching_PicturesHaveTheTagOfTheirPreset(t *testing.T) {
	t.Parallel()
	item := imageItem()
	preset := settings.Preset{Name: "hero", Width: 100, Densities: []int{1}, Format: settings.FormatWebP}
	d := newDelivery(t, item, &stored{data: bytes.Repeat([]byte("x"), 1000)})
	d.cdn = purging()
	handler := withPictures(d, &maker{}, tenant(preset))
	response := ask(handler, http.MethodGet, "hero", "Accept", "image/webp")
	if header := response.Header(); response.Code != http.StatusOK || header.Get("Cache-Tag") != "item,account,hero" || header.Get(cdnCacheControl) != "max-age=31536000" {
		t.Errorf("%d %v", response.Code, header)
	}
	if address := d.URLs().PictureURL(item, "hero", 1, ""); strings.Contains(address, "?") {
		t.Errorf("the address is %s", address)
	}
}

// A file that is to become a conversion has no version, and all caches keep it for a minute.
func TestCaching_OfAFileThatChangesSoon(t *testing.T) {
	t.Parallel()
	data := []byte("bytes of a file")
	item, version := versioned(data)
	item.Derivatives = media.DerivativesPending
	d := newDelivery(t, item, &stored{data: data})
	d.cdn = purging()
	if address := d.URLs().FileURL(item, settings.OriginalsPublic); strings.Contains(address, "?") {
		t.Errorf("the address is %s", address)
	}
	header := fetchedVariant(d, media.Shown, "v="+version).Header()
	if header.Get("Cache-Control") != "public, max-age=60" || header.Get(cdnCacheControl) != "max-age=60" {
		t.Errorf("%v", header)
	}
}
