package rest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	_ "image/jpeg"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/imaging/webp"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// presetsBy are the pins or the tenant's settings with these presets.
func presetsBy(presets ...settings.Preset) settings.Layer {
	return settings.Layer{Pictures: settings.Pictures{Presets: &presets}}
}

func (w *world) pin(t *testing.T, of string, one tenant, layer settings.Layer) {
	t.Helper()
	must(t, w.Settings.Pin(t.Context(), one.Account.ID, layer, settings.Object{Name: of, UID: "uid of " + of}))
}

// pictures returns the pictures of an item.
func (rt *runtime) pictures(t *testing.T, k string, item api.MediaItem) map[string]api.Picture {
	t.Helper()
	return rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String()+"?fields=mediaId,presets", key(k)).item(t).Presets
}

// jobs returns how many jobs of image workers pictures needed at replicas.
func jobs(t *testing.T, replicas ...*runtime) (sum float64) {
	t.Helper()
	for _, rt := range replicas {
		families, err := rt.Registry.Gather()
		must(t, err)
		at := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "mediastack_rendition_jobs_total" })
		sum += families[at].GetMetric()[0].GetCounter().GetValue()
	}
	return sum
}

// negotiated reports whether a cache has to tell requests with another Accept apart.
func negotiated(a answer) bool {
	return strings.Contains(strings.Join(a.Header.Values("Vary"), ","), "Accept")
}

func withImages(o *options) { o.Images = true }

// The path from the declaration to the picture, on two replicas.
func TestPresets_FromTheDeclarationToThePicture(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	a, b := w.runtime(t, withImages), w.runtime(t, withImages)
	w.pin(t, "team-a/site", one, presetsBy(settings.Preset{Name: "hero", Width: 100, Densities: []int{2}}, settings.Preset{Name: "avatar", Width: 50, Height: 50, Fit: settings.Cover, Format: settings.FormatJPEG}))
	public := a.sealed(t, one.Key, filePart("photo.jpg", photo(t, 800, 400)), field("access", "public"))
	private := a.sealed(t, one.Key, filePart("photo.jpg", photo(t, 800, 400)))
	wait.Until(t, "the pins are in effect", func() bool {
		return len(a.pictures(t, one.Key, public)) == 2 && len(b.pictures(t, one.Key, public)) == 2
	})

	for name, item := range map[string]api.MediaItem{"public": public, "private": private} {
		pictures := a.pictures(t, one.Key, item)
		hero, avatar := pictures["hero"], pictures["avatar"]
		if hero.Width != 100 || hero.Height != 50 || len(hero.Densities) != 2 || hero.Densities[1].Width != 200 || avatar.Width != 50 || avatar.Height != 50 ||
			hero.Srcset != hero.Url+" 1x, "+hero.Densities[1].Url+" 2x" || strings.Contains(hero.Url, "signature=") != (name == "private") {
			t.Fatalf("%s: %+v", name, pictures)
		}
		first := a.do(t, http.MethodGet, hero.Densities[1].Url, header("Accept", "image/webp,*/*"))
		picture, err := webp.StripMetadata(first.Body)
		if first.Status != http.StatusOK || first.Header.Get("Content-Type") != "image/webp" || !negotiated(first) || err != nil || picture.Width != 200 || picture.Height != 100 {
			t.Fatalf("%s: %d %v, %d x %d, %v", name, first.Status, first.Header, picture.Width, picture.Height, err)
		}
		before := jobs(t, a, b)
		for _, rt := range []*runtime{a, b} {
			again := rt.do(t, http.MethodGet, hero.Densities[1].Url, header("Accept", "image/webp,*/*"))
			if again.Status != http.StatusOK || !bytes.Equal(again.Body, first.Body) || again.Header.Get("ETag") != first.Header.Get("ETag") {
				t.Errorf("%s: %d %v", name, again.Status, again.Header)
			}
		}
		if after := jobs(t, a, b); after != before {
			t.Errorf("%s: made %g times again", name, after-before)
		}
		for accept, want := range map[string]string{"image/avif,image/webp,*/*": "image/avif", "*/*": "image/jpeg"} {
			if got := b.do(t, http.MethodGet, hero.Url, header("Accept", accept)); got.Status != http.StatusOK || got.Header.Get("Content-Type") != want {
				t.Errorf("%s with %s: %d %v", name, accept, got.Status, got.Header)
			}
		}
		got := b.do(t, http.MethodGet, avatar.Url, header("Accept", "image/avif"))
		config, format, err := image.DecodeConfig(bytes.NewReader(got.Body))
		if err != nil || format != "jpeg" || config.Width != 50 || config.Height != 50 || negotiated(got) {
			t.Errorf("%s: %d %v, %s %+v, %v", name, got.Status, got.Header, format, config, err)
		}
	}
	if fixed := strings.Replace(a.pictures(t, one.Key, public)["hero"].Url, "/hero/", "/hero.png/", 1); true {
		if got := a.do(t, http.MethodGet, fixed, header("Accept", "image/avif")); got.Status != http.StatusOK || got.Header.Get("Content-Type") != "image/png" || negotiated(got) {
			t.Errorf("%s: %d %v", fixed, got.Status, got.Header)
		}
	}
}

func TestPresets_OfATenantAreItsOwnUnlessPinned(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	plain := rt.do(t, http.MethodGet, "/settings/media/get", key(one.Key))
	if strings.Contains(string(plain.Body), "presets") || strings.Contains(string(plain.Body), "originals") {
		t.Errorf("settings that nobody has set: %s", plain.Body)
	}
	w.pin(t, "team-a/site", one, presetsBy(settings.Preset{Name: "hero", Width: 100}))
	change := func(body string) answer {
		return rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(body))
	}
	list := func() (names []string) {
		for _, preset := range decode[api.Settings](t, rt.do(t, http.MethodGet, "/settings/media/get", key(one.Key))).Presets {
			names = append(names, fmt.Sprintf("%s %d %s", preset.Name, max(preset.Width, preset.Height), preset.Source))
		}
		return names
	}
	if got := decode[api.Settings](t, change(`{"presets": [{"name": "card", "width": 20}, {"name": "tile", "height": 30, "densities": [1, 2]}]}`)); !slices.Equal(*got.Changed, []string{"presets"}) {
		t.Errorf("changed %v", *got.Changed)
	}
	want := []string{"hero 100 pinned", "card 20 tenant", "tile 30 tenant"}
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("in effect %v", got)
	}
	detail := change(`{"useWebP": true, "presets": [{"name": "other", "width": 1}, {"name": "hero", "width": 101}]}`).rejected(t, http.StatusConflict, "Conflict")
	if detail != "presets.hero: pinned by MediaSettings team-a/site" {
		t.Errorf("detail %s", detail)
	}
	for _, body := range []string{`{"presets": [{"name": "original", "width": 1}]}`, `{"presets": [{"name": "a"}]}`, `{"presets": [{"name": "a", "width": 1, "x": 1}]}`, `{"presets": {}}`, `{"originals": "private"}`, `{"presets": [{"name": "a", "width": 1, "width": 2}]}`} {
		change(body).rejected(t, http.StatusBadRequest, "Bad Request")
	}
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("after rejected changes %v", got)
	}
	// The document can be written back, with one preset more.
	document := decode[map[string]any](t, rt.do(t, http.MethodGet, "/settings/media/get", key(one.Key)))
	body, err := json.Marshal(document)
	must(t, err)
	if got := decode[api.Settings](t, change(string(body))); len(*got.Changed) != 0 {
		t.Errorf("the same document changed %v", *got.Changed)
	}
	document["presets"] = append(document["presets"].([]any), map[string]any{"name": "wide", "width": 40})
	body, err = json.Marshal(document)
	must(t, err)
	if got := decode[api.Settings](t, change(string(body))); !slices.Equal(*got.Changed, []string{"presets"}) {
		t.Errorf("changed %v", *got.Changed)
	}
	if got := list(); !slices.Equal(got, append(want, "wide 40 tenant")) {
		t.Errorf("in effect %v", got)
	}
	if got := decode[api.Settings](t, change(`{"presets": null, "useWebP": true}`)); !slices.Equal(*got.Changed, []string{"useWebP"}) {
		t.Errorf("changed %v", *got.Changed)
	}
	if decode[api.Settings](t, change(`{"presets": []}`)); !slices.Equal(list(), want[:1]) {
		t.Errorf("after the end of all %v", list())
	}
	many := make([]string, 33)
	for i := range many {
		many[i] = fmt.Sprintf(`{"name": "p%d", "width": 1}`, i)
	}
	change(`{"presets": [`+strings.Join(many[:32], ",")+`]}`).rejected(t, http.StatusBadRequest, "Bad Request")
	if decode[api.Settings](t, change(`{"presets": [`+strings.Join(many[:31], ",")+`]}`)); len(list()) != 32 {
		t.Errorf("%d in effect", len(list()))
	}
}

// Two replicas and the operator change the presets at once. Whatever order they get: no tenant's preset has a pinned name, and at
// most 32 are in effect.
func TestPresets_ChangesAtOnceKeepTheRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	a, b := w.runtime(t), w.runtime(t)
	var running sync.WaitGroup
	for i, rt := range []*runtime{a, b, a, b} {
		running.Go(func() {
			for round := range 20 {
				body := fmt.Sprintf(`{"presets": [{"name": "mine", "width": %d}, {"name": "r%d-%d", "width": 7}]}`, 1+i, i, round)
				if got, err := rt.try(t.Context(), http.MethodPost, "/settings/media/create", key(one.Key), text(body)); err != nil || got.Status != http.StatusOK && got.Status != http.StatusConflict {
					t.Errorf("%d %s, %v", got.Status, got.Body, err)
				}
			}
		})
	}
	running.Go(func() {
		for round := range 20 {
			w.pin(t, "team-a/site", one, presetsBy(settings.Preset{Name: []string{"mine", "site"}[round%2], Width: 1000}))
		}
	})
	running.Wait()
	w.pin(t, "team-a/site", one, presetsBy(settings.Preset{Name: "mine", Width: 1000}))
	got := decode[api.Settings](t, a.do(t, http.MethodGet, "/settings/media/get", key(one.Key)))
	if len(got.Presets) != 2 || got.Presets[0].Name != "mine" || got.Presets[0].Width != 1000 || got.Presets[0].Source != settings.FromPin || !strings.HasPrefix(got.Presets[1].Name, "r") {
		t.Errorf("in effect %+v", got.Presets)
	}
}

// A change of a preset gives its addresses other ETags: at once on the replica that it went through, and on the others with the
// notification.
func TestPresets_AChangedOneIsAnotherPictureOnEveryReplica(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	a, b := w.runtime(t, withImages), w.runtime(t, withImages)
	change := func(body string) {
		t.Helper()
		decode[api.Settings](t, a.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(body)))
	}
	change(`{"presets": [{"name": "hero", "width": 100, "format": "webp"}]}`)
	item := a.sealed(t, one.Key, filePart("photo.jpg", photo(t, 800, 400)), field("access", "public"))
	address := a.pictures(t, one.Key, item)["hero"].Url
	wait.Until(t, "the preset is in effect", func() bool { return b.do(t, http.MethodGet, address).Status == http.StatusOK })
	before := a.do(t, http.MethodGet, address)
	change(`{"presets": [{"name": "hero", "width": 60, "format": "webp"}]}`)
	after := a.do(t, http.MethodGet, address, header("If-None-Match", before.Header.Get("ETag")))
	picture, err := webp.StripMetadata(after.Body)
	if after.Status != http.StatusOK || err != nil || picture.Width != 60 {
		t.Fatalf("through the replica of the change: %d, %d pixels, %v", after.Status, picture.Width, err)
	}
	wait.Until(t, "the other replica has the change", func() bool {
		got := b.do(t, http.MethodGet, address, header("If-None-Match", before.Header.Get("ETag")))
		return got.Status == http.StatusOK && got.Header.Get("ETag") == after.Header.Get("ETag")
	})
	change(`{"presets": []}`)
	a.do(t, http.MethodGet, address).Is(t, http.StatusNotFound, "without the preset")
	wait.Until(t, "the preset ends on the other replica", func() bool { return b.do(t, http.MethodGet, address).Status == http.StatusNotFound })
}

func TestPresets_AreThoseOfTheItemsAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.tenant(t, "one"), w.tenant(t, "other")
	rt := w.runtime(t, withImages)
	for _, of := range []struct {
		key, body string
	}{{one.Key, `{"presets": [{"name": "mine", "width": 50}]}`}, {other.Key, `{"presets": [{"name": "theirs", "width": 50}]}`}} {
		decode[api.Settings](t, rt.do(t, http.MethodPost, "/settings/media/create", key(of.key), text(of.body)))
	}
	public := rt.sealed(t, one.Key, filePart("photo.jpg", photo(t, 80, 40)), field("access", "public"))
	private := rt.sealed(t, one.Key, filePart("photo.jpg", photo(t, 80, 40)))
	document := rt.sealed(t, one.Key, filePart("a.txt", []byte("text")), field("access", "public"))
	file := func(item api.MediaItem, variant string) string {
		return "/media/file/" + item.MediaId.String() + "/" + variant + "/x"
	}
	signed, err := url.Parse(rt.pictures(t, one.Key, private)["mine"].Url)
	must(t, err)
	for name, c := range map[string]struct {
		address string
		status  int
	}{
		"a preset of another account":           {file(public, "theirs"), http.StatusNotFound},
		"a private item without a signature":    {file(private, "mine"), http.StatusNotFound},
		"another density of a signed URL":       {file(private, "mine@2x") + "?" + signed.RawQuery, http.StatusForbidden},
		"another item with a signed URL's code": {file(public, "theirs") + "?" + signed.RawQuery, http.StatusForbidden},
		"no image":                              {file(document, "mine"), http.StatusNotFound},
		"an unknown item":                       {"/media/file/01a1fd74-5f6f-8afa-b000-3510feddacd9/mine/x", http.StatusNotFound},
	} {
		rt.do(t, http.MethodGet, c.address).Is(t, c.status, "%s", name)
	}
	if n := jobs(t, rt); n != 0 {
		t.Errorf("%g jobs", n)
	}
	if got := rt.do(t, http.MethodGet, signed.String()); got.Status != http.StatusOK || !strings.HasPrefix(got.Header.Get("Cache-Control"), "private, ") {
		t.Errorf("the signed URL: %d %v", got.Status, got.Header)
	}
	if pictures := rt.pictures(t, one.Key, document); len(pictures) != 0 {
		t.Errorf("no image has %v", pictures)
	}
	broken := rt.sealed(t, one.Key, filePart("photo.jpg", photo(t, 80, 40)[:300]), field("access", "public"))
	rt.do(t, http.MethodGet, file(broken, "mine")).Is(t, http.StatusUnsupportedMediaType, "a broken image")
}

// Who guesses addresses costs no work.
func TestPresets_AddressesThatNoneAllowsMakeNoJob(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t, withImages)
	decode[api.Settings](t, rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"presets": [{"name": "hero", "width": 50, "densities": [1, 2]}, {"name": "icon", "width": 50, "format": "png"}]}`)))
	item := rt.sealed(t, one.Key, filePart("photo.jpg", photo(t, 80, 40)), field("access", "public"))
	variants := []string{"hero@3x", "hero@1x", "hero.gif", "hero@2x.jpg", "icon.webp", "icon@2x", "hero-%d", "%d", "hero@%dx", "hero.%d", "w_%d", "hero@2x.avif%d"}
	var running sync.WaitGroup
	var next atomic.Int64
	for range 8 {
		running.Go(func() {
			for n := next.Add(1); n <= size(1000, 10_000); n = next.Add(1) {
				variant := variants[int(n)%len(variants)]
				if strings.Contains(variant, "%d") {
					variant = fmt.Sprintf(variant, n+3)
				}
				got, err := rt.try(t.Context(), http.MethodGet, "/media/file/"+item.MediaId.String()+"/"+variant+"/x")
				if err != nil || got.Status != http.StatusNotFound {
					t.Errorf("%s: %d, %v", variant, got.Status, err)
					return
				}
			}
		})
	}
	running.Wait()
	if n := jobs(t, rt); n != 0 {
		t.Errorf("%g jobs", n)
	}
	w.Counts(t, 0, "rows", "SELECT count(*) FROM rendition")
}

func TestOriginals_SignedByATenantOrAPin(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t, withImages)
	item := rt.sealed(t, one.Key, filePart("photo.jpg", photo(t, 800, 400)), field("access", "public"))
	read := func() api.MediaItem {
		return rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String(), key(one.Key)).item(t)
	}
	if got := rt.do(t, http.MethodGet, item.File); got.Status != http.StatusOK || strings.Contains(item.File, "signature=") {
		t.Fatalf("by default: %d at %s", got.Status, item.File)
	}
	got := decode[api.Settings](t, rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"originals": "signed"}`)))
	if !slices.Equal(*got.Changed, []string{"originals"}) || got.Originals != settings.OriginalsSigned || got.Sources["originals"] != settings.FromTenant {
		t.Errorf("%+v", got)
	}
	rt.do(t, http.MethodGet, item.File).Is(t, http.StatusNotFound, "the former URL")
	signed := read()
	if got := rt.do(t, http.MethodGet, signed.File); got.Status != http.StatusOK || !strings.Contains(signed.File, "signature=") || !strings.HasPrefix(got.Header.Get("Cache-Control"), "private,") {
		t.Errorf("the signed URL: %d %v at %s", got.Status, got.Header, signed.File)
	}
	if got := rt.do(t, http.MethodGet, signed.Thumbnail); got.Status != http.StatusOK || strings.Contains(signed.Thumbnail, "signature=") {
		t.Errorf("the thumbnail: %d at %s", got.Status, signed.Thumbnail)
	}
	w.pin(t, "team-a/site", one, settings.Layer{Pictures: settings.Pictures{Originals: settings.OriginalsPublic}})
	detail := rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"originals": "signed"}`)).rejected(t, http.StatusConflict, "Conflict")
	if detail != "originals: pinned by MediaSettings team-a/site" {
		t.Errorf("detail %s", detail)
	}
	wait.Until(t, "the pin is in effect", func() bool { return rt.do(t, http.MethodGet, item.File).Status == http.StatusOK })
}

func TestFocus_IsKeptAndMovesThePicture(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t, withImages)
	decode[api.Settings](t, rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"presets": [{"name": "square", "width": 40, "height": 40, "fit": "cover", "focus": "point", "format": "png"}]}`)))
	item := rt.sealed(t, one.Key, filePart("photo.jpg", photo(t, 200, 80)), field("access", "public"))
	patch := func(body string) answer {
		return rt.do(t, http.MethodPatch, "/media/"+item.MediaId.String(), key(one.Key), header("Content-Type", "application/merge-patch+json"), text(body))
	}
	etags := map[string]bool{}
	for body, want := range map[string]*api.Focus{
		`{"focus": {"x": 0, "y": 1}}`: {X: 0, Y: 1}, `{"focus": {"x": 0.9006, "y": 0.25}}`: {X: 0.901, Y: 0.25}, `{"focus": null}`: nil,
	} {
		got := patch(body).item(t)
		read := rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String(), key(one.Key)).item(t)
		listed := decode[[]api.MediaItem](t, rt.do(t, http.MethodGet, "/media/get", key(one.Key)))[0]
		for _, document := range []api.MediaItem{got, read, listed} {
			if (document.Focus == nil) != (want == nil) || want != nil && *document.Focus != *want {
				t.Errorf("%s: %+v", body, document.Focus)
			}
		}
		picture := rt.do(t, http.MethodGet, "/media/file/"+item.MediaId.String()+"/square/x")
		if picture.Status != http.StatusOK {
			t.Errorf("%s: %d %s", body, picture.Status, picture.Body)
		}
		etags[picture.Header.Get("ETag")] = true
	}
	if len(etags) != 3 {
		t.Errorf("%d pictures of three points", len(etags))
	}
	for _, body := range []string{`{"focus": {"x": 0.5}}`, `{"focus": {"x": 0.5, "y": 1.001}}`, `{"focus": {"x": -0.1, "y": 0}}`, `{"focus": {"x": "0", "y": 0}}`, `{"focus": {"x": 0, "y": null}}`, `{"focus": [0, 0]}`, `{"focus": {"x": 0, "z": 0}}`, `{"focus": {"x": 0, "y": 0, "z": 0}}`} {
		patch(body).rejected(t, http.StatusBadRequest, "Bad Request")
	}
	before := patch(`{"focus": {"x": 0.5, "y": 0.5}}`).Header.Get("ETag")
	if again := patch(`{"focus": {"x": 0.5, "y": 0.5}}`).Header.Get("ETag"); again != before {
		t.Errorf("the same focus changed the version from %s to %s", before, again)
	}
	_, err := rt.Media.Update(t.Context(), w.Principal(t, one), item.MediaId, media.Change{SetFocus: true, Focus: &media.FocusPoint{X: 1001}}, media.Condition{})
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("a point out of the image: %v", err)
	}
}
