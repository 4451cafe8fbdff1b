package delivery

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv/retryafter"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

// A picture whose original has gone with its item is not a lost file.
func TestPicture_OfAnItemThatWasDeletedMeanwhileIsNotFound(t *testing.T) {
	t.Parallel()
	for status, current := range map[int]Items{http.StatusNotFound: none{}, http.StatusInternalServerError: one{imageItem()}} {
		d := newDelivery(t, imageItem(), nil)
		m := &maker{fail: map[settings.Format]error{settings.FormatAuto: fault.New(fault.FileLost, "the file is lost")}}
		handler := withPictures(d, m, tenant(settings.Preset{Name: "hero", Width: 100}))
		d.current = current
		if got := ask(handler, http.MethodGet, "hero"); got.Code != status {
			t.Errorf("%d %s, want %d", got.Code, got.Body, status)
		}
	}
}

func TestPicture_IsNegotiatedWithoutASuffix(t *testing.T) {
	t.Parallel()
	m := &maker{}
	handler := withPictures(newDelivery(t, imageItem(), nil), m, tenant(settings.Preset{Name: "hero", Width: 100, Densities: []int{2}}, settings.Preset{Name: "icon", Width: 10, Format: settings.FormatPNG}))
	etags := map[string]string{}
	for _, c := range []struct{ variant, accept, kind, vary string }{
		{"hero", "image/avif,image/webp,*/*", "image/avif", "Accept"}, {"hero", "image/webp,*/*", "image/webp", "Accept"}, {"hero", "", "image/jpeg", "Accept"},
		{"hero@2x", "image/avif", "image/avif", "Accept"}, {"hero.webp", "image/avif", "image/webp", ""}, {"hero@2x.png", "", "image/png", ""}, {"icon", "image/avif", "image/png", ""},
	} {
		got := ask(handler, http.MethodGet, c.variant, "Accept", c.accept)
		if header := got.Header(); got.Code != http.StatusOK || header.Get("Content-Type") != c.kind || header.Get("Vary") != c.vary || header.Get("Cache-Control") != "public, max-age=60" ||
			header.Get("Last-Modified") != "" || !strings.HasPrefix(header.Get("Content-Disposition"), `inline; filename="photo.`) {
			t.Errorf("%s with %s: %d %v", c.variant, c.accept, got.Code, header)
		}
		etag := got.Header().Get("ETag")
		if before, same := etags[etag]; same && before != c.variant+c.kind && (c.variant != "hero.webp" || before != "heroimage/webp") {
			t.Errorf("%s has the ETag of %s", c.variant, before)
		}
		etags[etag] = c.variant + c.kind
		if again := ask(handler, http.MethodGet, c.variant, "Accept", c.accept, "If-None-Match", etag); again.Code != http.StatusNotModified || again.Header().Get("Vary") != c.vary {
			t.Errorf("%s: %d %v", c.variant, again.Code, again.Header())
		}
		if part := ask(handler, http.MethodGet, c.variant, "Accept", c.accept, "Range", "bytes=2-5"); part.Code != http.StatusPartialContent || part.Body.String() != got.Body.String()[2:6] {
			t.Errorf("%s: %d %s", c.variant, part.Code, part.Body)
		}
		if head := ask(handler, http.MethodHead, c.variant, "Accept", c.accept); head.Code != http.StatusOK || head.Header().Get("Content-Length") != strconv.Itoa(got.Body.Len()) || head.Body.Len() != 0 {
			t.Errorf("%s: HEAD %d %v", c.variant, head.Code, head.Header())
		}
	}
}

// What no preset allows costs no work.
func TestPicture_OfNoPresetIsNotFoundBeforeAnyWork(t *testing.T) {
	t.Parallel()
	m := &maker{}
	presets := tenant(settings.Preset{Name: "hero", Width: 100, Densities: []int{1, 2}}, settings.Preset{Name: "icon", Width: 10, Format: settings.FormatPNG})
	item := imageItem()
	handler := withPictures(newDelivery(t, item, nil), m, presets)
	for _, variant := range []string{"other", "hero@3x", "hero@1x", "hero.gif", "hero.jpg", "icon.png", "icon.avif", "icon@2x", "HERO", "webp", "thumbnail", "webp@2x"} {
		if got := ask(handler, http.MethodGet, variant); got.Code != http.StatusNotFound {
			t.Errorf("%s: %d", variant, got.Code)
		}
	}
	item.Objects[0].MimeType = "application/pdf"
	if got := ask(withPictures(newDelivery(t, item, nil), m, presets), http.MethodGet, "hero"); got.Code != http.StatusNotFound {
		t.Errorf("no image: %d", got.Code)
	}
	item = imageItem()
	item.Access = media.Private
	handler = withPictures(newDelivery(t, item, nil), m, presets)
	for variant, want := range map[string]int{"hero": http.StatusNotFound, "hero?expires=1&signature=AAAA": http.StatusForbidden, "other": http.StatusNotFound} {
		name, query, _ := strings.Cut(variant, "?")
		request := httptest.NewRequest(http.MethodGet, "/media/file/"+item.ID.String()+"/"+name+"/photo?"+query, nil)
		recorder := httptest.NewRecorder()
		if handler.ServeHTTP(recorder, request); recorder.Code != want {
			t.Errorf("private %s: %d, want %d", variant, recorder.Code, want)
		}
	}
	if len(m.asked) != 0 {
		t.Errorf("%d pictures were asked for: %+v", len(m.asked), m.asked)
	}
}

func TestPicture_OfAPrivateItemNeedsASignatureOfItsOwn(t *testing.T) {
	t.Parallel()
	item := imageItem()
	item.Access = media.Private
	d := newDelivery(t, item, nil)
	handler := withPictures(d, &maker{}, tenant(settings.Preset{Name: "hero", Width: 100, Densities: []int{2}}))
	signed := strings.TrimPrefix(d.URLs().PictureURL(item, "hero", 1, ""), "http://media.test")
	for address, want := range map[string]int{
		signed: http.StatusOK,
		strings.TrimPrefix(d.URLs().PictureURL(item, "hero", 2, settings.FormatAVIF), "http://media.test"):                                        http.StatusOK,
		strings.Replace(signed, "/hero/", "/hero@2x/", 1):                                                                                         http.StatusForbidden,
		strings.Replace(signed, "/hero/", "/hero.avif/", 1):                                                                                       http.StatusForbidden,
		strings.Replace(signed, "/hero/", "/original/", 1):                                                                                        http.StatusForbidden,
		strings.TrimPrefix(d.URLs().PictureURL(item, "other", 1, ""), "http://media.test"):                                                        http.StatusNotFound,
		strings.Replace(strings.TrimPrefix(d.URLs().PictureURL(item, "hero", 1, ""), "http://media.test"), item.ID.String(), uuid.NewString(), 1): http.StatusForbidden,
	} {
		recorder := httptest.NewRecorder()
		if handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, address, nil)); recorder.Code != want {
			t.Errorf("%s: %d, want %d", address, recorder.Code, want)
		}
	}
}

func TestPicture_FailuresHaveTheirStatus(t *testing.T) {
	t.Parallel()
	broken := fault.New(fault.UnsupportedType, "the image is broken")
	tooLarge := fault.Wrap(media.ErrNotOffered, fault.UnsupportedType, "the picture is too large")
	encoder := fault.Wrap(media.ErrOtherFormat, fault.UnsupportedType, "the picture could not be made in this format")
	died := fault.Wrap(errors.Join(media.ErrOtherFormat, media.ErrWorkerFailed), fault.Unavailable, "the picture could not be made as AVIF now")
	busy := &fault.Error{Kind: fault.Busy, Public: "too many images", RetryAfter: time.Minute} // that of other faults is never as long
	for name, c := range map[string]struct {
		variant, accept string
		fail            map[settings.Format]error
		status          int
		kind            string
	}{
		"a broken image":                          {"hero", "", map[settings.Format]error{settings.FormatAuto: broken}, http.StatusUnsupportedMediaType, ""},
		"a full queue":                            {"hero", "", map[settings.Format]error{settings.FormatAuto: busy}, http.StatusTooManyRequests, ""},
		"AVIF would be too large":                 {"hero", "image/avif,image/webp", map[settings.Format]error{settings.FormatAVIF: tooLarge}, http.StatusOK, "image/webp"},
		"a suffix whose picture is too large":     {"hero.avif", "", map[settings.Format]error{settings.FormatAVIF: tooLarge}, http.StatusNotFound, ""},
		"the encoder of AVIF fails":               {"hero", "image/avif,image/webp", map[settings.Format]error{settings.FormatAVIF: encoder}, http.StatusOK, "image/webp"},
		"workers die of AVIF":                     {"hero", "image/avif,image/webp", map[settings.Format]error{settings.FormatAVIF: died}, http.StatusOK, "image/webp"},
		"only AVIF is accepted, and it fails":     {"hero", "image/avif", map[settings.Format]error{settings.FormatAVIF: died}, http.StatusOK, "image/jpeg"},
		"a suffix whose encoder fails":            {"hero.avif", "", map[settings.Format]error{settings.FormatAVIF: encoder}, http.StatusUnsupportedMediaType, ""},
		"a suffix of which workers die":           {"hero.avif", "", map[settings.Format]error{settings.FormatAVIF: died}, http.StatusServiceUnavailable, ""},
		"every format fails":                      {"hero", "image/avif,image/webp", map[settings.Format]error{settings.FormatAVIF: died, settings.FormatWebP: encoder, settings.FormatAuto: encoder}, http.StatusUnsupportedMediaType, ""},
		"no other format is tried for a full one": {"hero", "image/avif,image/webp", map[settings.Format]error{settings.FormatAVIF: busy}, http.StatusTooManyRequests, ""},
	} {
		m := &maker{fail: c.fail}
		got := ask(withPictures(newDelivery(t, imageItem(), nil), m, tenant(settings.Preset{Name: "hero", Width: 100})), http.MethodGet, c.variant, "Accept", c.accept)
		if got.Code != c.status || c.kind != "" && got.Header().Get("Content-Type") != c.kind || retryafter.Is(got.Header(), 60) != (c.status == http.StatusTooManyRequests) {
			t.Errorf("%s: %d %v %s", name, got.Code, got.Header(), got.Body)
		}
		if c.status != http.StatusOK && strings.Contains(got.Header().Get("Cache-Control"), "public") {
			t.Errorf("%s: a cache may keep the error: %v", name, got.Header())
		}
	}
}

// Its size says that there is no AVIF of the picture, so that none is tried.
func TestPicture_TooLargeForAVIFIsNotTried(t *testing.T) {
	t.Parallel()
	m := &maker{}
	handler := withPictures(newDelivery(t, imageItem(), nil), m, tenant(settings.Preset{Name: "hero", Width: 4096}))
	if got := ask(handler, http.MethodGet, "hero", "Accept", "image/avif,image/webp"); got.Header().Get("Content-Type") != "image/webp" {
		t.Errorf("%d %v", got.Code, got.Header())
	}
	if got := ask(handler, http.MethodGet, "hero.avif"); got.Code != http.StatusNotFound {
		t.Errorf("%d", got.Code)
	}
	for _, request := range m.asked {
		if request.Recipe.Format == settings.FormatAVIF {
			t.Errorf("AVIF was tried: %+v", request)
		}
	}
}

func TestPicture_WhoseObjectIsLostIsMadeAgain(t *testing.T) {
	t.Parallel()
	m := &forgetful{maker: maker{}}
	d := newDelivery(t, imageItem(), &stored{fail: fault.New(fault.NotFound, "no such object")})
	handler := withPictures(d, &m.maker, tenant(settings.Preset{Name: "hero", Width: 100}))
	d.renditions = m
	got := ask(handler, http.MethodGet, "hero")
	if got.Code != http.StatusOK || got.Body.Len() == 0 || m.lost != 1 || got.Header().Get("Content-Length") != strconv.Itoa(got.Body.Len()) {
		t.Errorf("%d %v, made again %d times", got.Code, got.Header(), m.lost)
	}
	m.again = errors.New("the workers died")
	if got := ask(handler, http.MethodGet, "hero"); got.Code != http.StatusInternalServerError || got.Header().Get("ETag") != "" {
		t.Errorf("%d %v", got.Code, got.Header())
	}
}

// A picture that is not released keeps its memory for ever.
func TestPicture_IsReleasedHoweverTheResponseEnds(t *testing.T) {
	t.Parallel()
	presets := tenant(settings.Preset{Name: "hero", Width: 100, Format: settings.FormatWebP})
	m := &maker{}
	etag := ask(withPictures(newDelivery(t, imageItem(), nil), m, presets), http.MethodGet, "hero").Header().Get("ETag")
	for name, c := range map[string]struct {
		method  string
		headers []string
		change  func(d *Delivery, m *maker)
		status  int
		results int // 1 unless it is set
	}{
		"GET":                       {status: http.StatusOK},
		"GET of what is not stored": {status: http.StatusOK, change: func(_ *Delivery, m *maker) { m.unstored = true }},
		"HEAD":                      {method: http.MethodHead, status: http.StatusOK},
		"a range":                   {headers: []string{"Range", "bytes=2-5"}, status: http.StatusPartialContent},
		"several ranges":            {headers: []string{"Range", "bytes=2-5,7-9"}, status: http.StatusPartialContent},
		"a range outside":           {headers: []string{"Range", "bytes=9999-"}, status: http.StatusRequestedRangeNotSatisfiable},
		"not modified":              {headers: []string{"If-None-Match", etag}, status: http.StatusNotModified},
		"a condition that fails":    {headers: []string{"If-Match", `"other"`}, status: http.StatusPreconditionFailed},
		"a redirect":                {status: http.StatusFound, change: func(d *Delivery, _ *maker) { d.presign = presigned{} }},
		"a redirect that fails":     {status: http.StatusInternalServerError, change: func(d *Delivery, _ *maker) { d.presign = presigned{errors.New("no keys")} }},
		"no slot for the download":  {status: http.StatusTooManyRequests, change: func(d *Delivery, _ *maker) { d.downloads = fullLimiter(t) }},
		"an object that is lost": {status: http.StatusOK, results: 2, change: func(d *Delivery, m *maker) {
			d.renditions, d.objects = &forgetful{maker: *m, counted: m}, &stored{fail: fault.New(fault.NotFound, "gone")}
		}},
		"an object that is lost twice": {status: http.StatusInternalServerError, results: 1, change: func(d *Delivery, m *maker) {
			d.renditions, d.objects = &forgetful{maker: *m, counted: m, again: fault.New(fault.FileLost, "the file, too")}, &stored{fail: fault.New(fault.NotFound, "gone")}
		}},
		"an object that is lost with its item": {status: http.StatusNotFound, results: 1, change: func(d *Delivery, m *maker) {
			d.renditions, d.objects = &forgetful{maker: *m, counted: m, again: fault.New(fault.FileLost, "the file, too")}, &stored{fail: fault.New(fault.NotFound, "gone")}
			d.current = none{}
		}},
		"a response that breaks": {status: http.StatusOK, change: func(d *Delivery, m *maker) {
			d.renditions, d.objects = &forgetful{maker: *m, counted: m}, &stored{data: make([]byte, 1000), breakAt: 5}
		}},
	} {
		m, d := &maker{}, newDelivery(t, imageItem(), nil)
		handler := withPictures(d, m, presets)
		if c.change != nil {
			c.change(d, m)
		}
		recorder := httptest.NewRecorder()
		func() {
			defer func() { _ = recover() }() // http.ErrAbortHandler
			request := httptest.NewRequest(cmp.Or(c.method, http.MethodGet), "/media/file/"+uuid.UUID{5}.String()+"/hero/photo", nil)
			for i := 0; i < len(c.headers); i += 2 {
				request.Header.Set(c.headers[i], c.headers[i+1])
			}
			handler.ServeHTTP(recorder, request)
		}()
		if want := cmp.Or(c.results, 1); recorder.Code != c.status || m.released != want {
			t.Errorf("%s: status %d, %d results were released, want %d", name, recorder.Code, m.released, want)
		}
	}
}

// fullLimiter returns a limiter whose only slot is taken.
func fullLimiter(t *testing.T) *downloadLimiter {
	t.Helper()
	limiter, err := newDownloadLimiter(Config{MaxDownloads: 1, DownloadPerClientPercent: 100}, nil)
	if err == nil {
		err = limiter.Acquire(netip.Prefix{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// A bucket that is missing is no lost object: making each picture again would end all of them.
func TestPicture_OfAMissingBucketIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	d := newDelivery(t, imageItem(), &stored{fail: fault.Wrap(installation.ErrNoBucket, fault.NotFound, "not found in the object store")})
	m := &forgetful{}
	handler := withPictures(d, &m.maker, tenant(settings.Preset{Name: "hero", Width: 100}))
	d.renditions = m
	if got := ask(handler, http.MethodGet, "hero"); got.Code != http.StatusServiceUnavailable || m.lost != 0 || got.Header().Get("ETag") != "" {
		t.Errorf("%d %v, made again %d times", got.Code, got.Header(), m.lost)
	}
	d.presign, d.ttl, d.present = presigned{}, time.Minute, newPresence(time.Now)
	if got := ask(handler, http.MethodGet, "hero"); got.Code != http.StatusFound || m.lost != 0 {
		t.Errorf("redirected: %d %v, made again %d times", got.Code, got.Header(), m.lost)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(d.lost)
	if families, err := registry.Gather(); err != nil || families[0].GetMetric()[0].GetCounter().GetValue() != 0 {
		t.Errorf("files are counted as lost: %v, %v", families, err)
	}
}

// forgetful returns stored pictures, whose bytes only the object store has.
type forgetful struct {
	maker
	again   error
	counted *maker // has the number of results that were released, if it is set
}

// Get returns a picture without its bytes.
func (f *forgetful) Get(ctx context.Context, item media.Item, owner media.Owner, request rendition.Request) (rendition.Result, error) {
	result, err := f.maker.Get(ctx, item, owner, request)
	result.Data = nil
	return f.count(result), err
}

// Lost makes the picture again, with its bytes.
func (f *forgetful) Lost(ctx context.Context, item media.Item, owner media.Owner, request rendition.Request, lost rendition.Result) (rendition.Result, error) {
	if f.again != nil {
		return rendition.Result{}, f.again
	}
	result, err := f.maker.Lost(ctx, item, owner, request, lost)
	return f.count(result), err
}

// Nearest finds nothing.
func (f *forgetful) Nearest(ctx context.Context, item media.Item, width, height int) (rendition.Result, string, error) {
	return f.maker.Nearest(ctx, item, width, height)
}

func (f *forgetful) count(result rendition.Result) rendition.Result {
	if f.counted == nil {
		return result
	}
	return result.WithRelease(func() { f.counted.released++ })
}

func TestOriginals_SignedNeedAURLWhilePicturesStayPublic(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		originals settings.Originals
		converted bool
		public    map[string]bool
	}{
		"public originals":                  {"", false, map[string]bool{"original": true, "thumbnail": true, "hero": true}},
		"signed originals":                  {settings.OriginalsSigned, false, map[string]bool{"original": false, "thumbnail": true, "hero": true}},
		"signed originals and a conversion": {settings.OriginalsSigned, true, map[string]bool{"original": false, "webp": true, "thumbnail": true, "hero": true}},
	} {
		item := imageItem()
		item.Objects = append(item.Objects, media.Object{Variant: media.Thumbnail, Key: "t", Bytes: 10, MimeType: "image/webp", SHA256: []byte{2}})
		if c.converted {
			item.Objects = append(item.Objects, media.Object{Variant: media.WebP, Key: "w", Bytes: 10, MimeType: "image/webp", SHA256: []byte{3}})
		}
		layers := tenant(settings.Preset{Name: "hero", Width: 100})
		layers.Tenant.Originals = c.originals
		d := newDelivery(t, item, &stored{data: make([]byte, 10)})
		handler := withPictures(d, &maker{}, layers)
		for variant, public := range c.public {
			want := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[public]
			if got := ask(handler, http.MethodGet, variant); got.Code != want {
				t.Errorf("%s: %s is answered %d", name, variant, got.Code)
			}
			if object, ok := item.Objects.Find(media.Variant(variant)); ok {
				originals, _ := layers.Originals()
				address := d.URLs().URL(item, object, originals)
				if strings.Contains(address, "signature=") == public {
					t.Errorf("%s: the URL of %s is %s", name, variant, address)
				}
				recorder := httptest.NewRecorder()
				if handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, address, nil)); recorder.Code != http.StatusOK {
					t.Errorf("%s: %s is answered %d", name, address, recorder.Code)
				}
			}
		}
	}
}

// changing is an item that changes while a picture of it is made.
type changing struct {
	maker
	makes func()
}

// Get makes a picture, after the change.
func (c *changing) Get(ctx context.Context, item media.Item, owner media.Owner, request rendition.Request) (rendition.Result, error) {
	time.Sleep(2 * authorizeAgainAfter) //nolint:forbidigo // the clock of synctest; the authorization holds for less
	c.makes()
	return c.maker.Get(ctx, item, owner, request)
}

// A request that waited for its picture was answered after the delete of its item, or the end of its public access, was acknowledged.
func TestPicture_IsNotSentAfterItsItemIsGone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Delivery){
		"deleted": func(d *Delivery) { d.items = none{} },
		"private": func(d *Delivery) {
			item := imageItem()
			item.Access = media.Private
			d.items = one{item}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDelivery(t, imageItem(), &stored{fail: fault.New(fault.NotFound, "no such object")})
			c := &changing{makes: func() { change(d) }}
			handler := withPictures(d, &c.maker, tenant(settings.Preset{Name: "hero", Width: 100}))
			d.renditions = c
			if got := ask(handler, http.MethodGet, "hero"); got.Code != http.StatusNotFound || got.Header().Get("ETag") != "" || c.made != 1 || c.released != 1 {
				t.Errorf("%s: %d %v, %d made, %d released", name, got.Code, got.Header(), c.made, c.released)
			}
		})
	}
}
