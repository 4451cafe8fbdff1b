package rest_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/api"
)

// A hundred clients ask two replicas for a picture that does not exist.
func TestPresets_AHundredClientsOfTwoReplicasHaveOneJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	replicas := []*runtime{w.runtime(t, withImages, cachedItems), w.runtime(t, withImages, cachedItems)}
	decode[api.Settings](t, replicas[0].do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"presets": [{"name": "hero", "width": 500, "format": "avif"}]}`)))
	item := replicas[0].sealed(t, one.Key, filePart("photo.jpg", photo(t, 1600, 1200)), field("access", "public"))
	wait.Until(t, "the preset is in effect", func() bool { return len(replicas[1].pictures(t, one.Key, item)) == 1 })
	address := replicas[0].pictures(t, one.Key, item)["hero"].Url
	var all sync.WaitGroup
	var tags sync.Map
	for i := range 100 {
		all.Go(func() {
			got, err := replicas[i%2].try(t.Context(), []string{http.MethodGet, http.MethodGet, http.MethodHead}[i%3], address)
			if err != nil || got.Status != http.StatusOK {
				t.Errorf("%v %d %s", err, got.Status, got.Body)
				return
			}
			tags.Store(got.Header.Get("ETag"), true)
		})
	}
	all.Wait()
	n := 0
	tags.Range(func(any, any) bool { n++; return true })
	if made := jobs(t, replicas...); made != 1 || n != 1 {
		t.Errorf("%g jobs, %d pictures", made, n)
	}
	w.Counts(t, 1, "rows", "SELECT count(*) FROM rendition WHERE ready")
}

// total returns the sum of the counters, and of the observations, of metrics.
func total(t *testing.T, registry *prometheus.Registry, names ...string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	must(t, err)
	for _, family := range families {
		if !slices.Contains(names, family.GetName()) {
			continue
		}
		for _, metric := range family.GetMetric() {
			sum += metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// A client that guesses addresses, of items that exist or not, with a signature or without, costs the look-up of the item at most.
func TestPresets_AddressesThatNoneAllowsCostOnlyTheLookupOfTheItem(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t, withImages, cachedItems)
	decode[api.Settings](t, rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"presets": [{"name": "hero", "width": 50, "densities": [1, 2]}, {"name": "icon", "width": 50, "format": "png"}]}`)))
	public := rt.sealed(t, one.Key, filePart("photo.jpg", photo(t, 80, 40)), field("access", "public"))
	private := rt.sealed(t, one.Key, filePart("photo.jpg", photo(t, 80, 40)))
	signed, err := url.Parse(rt.pictures(t, one.Key, private)["hero"].Url)
	must(t, err)
	missing := strings.Replace(public.MediaId.String(), public.MediaId.String()[24:], "0123456789ab", 1)
	variants := []string{"hero@3x", "hero@1x", "hero.gif", "hero@2x.jpg", "hero@2X", "icon.webp", "icon@2x", "icon.png", "HERO", "Hero", "hero.AVIF", "hero.auto", "hero@2x@2x", "hero%%402x%%40", "webp", "webp.avif",
		"thumbnail@2x", "original.avif", "original@2x", "Original", "..", "..%%2F..%%2Foriginal", "%%2e%%2e", "hero%%2F..", "hero%%00", "hero%%2540x", "rendition-%d", "w_%d", "hero-%d", "hero@%dx", "hero.%d"}
	for i, v := range variants {
		variants[i] = strings.ReplaceAll(v, "%%", "%")
	}
	variant := func(n int) string { return strings.Replace(variants[n%len(variants)], "%d", fmt.Sprint(n+3), 1) }
	rt.do(t, http.MethodGet, "/media/file/"+public.MediaId.String()+"/original/x") // both rows are in the cache
	rt.do(t, http.MethodGet, "/media/file/"+private.MediaId.String()+"/original/x")
	database := prometheus.NewRegistry()
	must(t, w.Store.Register(database))
	measure := func() (statements, lookups, renditions float64) {
		return total(t, database, "mediastack_database_statement_duration_seconds"), total(t, rt.Registry, "mediastack_item_cache_lookups_total"),
			total(t, rt.Registry, "mediastack_rendition_requests_total", "mediastack_rendition_failures_total")
	}
	misses := func() float64 {
		families, err := rt.Registry.Gather()
		must(t, err)
		at := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "mediastack_item_cache_lookups_total" })
		for _, metric := range families[at].GetMetric() {
			if metric.GetLabel()[0].GetValue() == "miss" {
				return metric.GetCounter().GetValue()
			}
		}
		return 0
	}
	statements, lookups, renditions := measure()
	missed, used := misses(), w.QueryInt(t, "SELECT bytes FROM account_usage WHERE account_id = $1", one.Account.ID)
	requests := int(size(2000, 10_000)) // each variant has several of each kind
	var running sync.WaitGroup
	var next atomic.Int64
	for range 8 {
		running.Go(func() {
			for n := int(next.Add(1)); n <= requests; n = int(next.Add(1)) {
				name := variant(n / 5)
				method := []string{http.MethodGet, http.MethodHead}[n%2]
				address, want := "/media/file/"+public.MediaId.String()+"/"+name+"/x", http.StatusNotFound
				switch n % 5 {
				case 1:
					address = "/media/file/" + missing + "/" + name + "/x"
				case 2:
					address = "/media/file/" + private.MediaId.String() + "/" + name + "/x"
				case 3: // the signature of another variant
					address, want = "/media/file/"+private.MediaId.String()+"/"+name+"/x?"+signed.RawQuery, http.StatusForbidden
				case 4:
					address, want = "/media/file/"+missing+"/"+name+"/x?"+signed.RawQuery, http.StatusForbidden
				}
				got, err := rt.try(t.Context(), method, address)
				if err != nil || got.Status != want {
					t.Errorf("%s %s: %d, want %d, %v", method, address, got.Status, want, err)
					return
				}
			}
		})
	}
	running.Wait()
	if n := jobs(t, rt); n != 0 {
		t.Errorf("%g jobs", n)
	}
	statementsAfter, lookupsAfter, renditionsAfter := measure()
	if renditionsAfter != renditions {
		t.Errorf("%g renditions were looked for", renditionsAfter-renditions)
	}
	if lookupsAfter-lookups != float64(requests) {
		t.Errorf("%g items were looked up", lookupsAfter-lookups)
	}
	// A statement for each item that is not in the cache, and those of the background: a few each second.
	if n := statementsAfter - statements - (misses() - missed); n > float64(requests)/5 {
		t.Errorf("%g statements, of which %g were for items", statementsAfter-statements, misses()-missed)
	}
	w.Counts(t, 0, "rows", "SELECT (SELECT count(*) FROM rendition) + (SELECT count(*) FROM rendition_total)")
	if now := w.QueryInt(t, "SELECT bytes FROM account_usage WHERE account_id = $1", one.Account.ID); now != used {
		t.Errorf("%d bytes, %d before", now, used)
	}
}

// A signed URL, and the rights of a public item, are for one address.
func TestPresets_OpenNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.tenant(t, "one"), w.tenant(t, "other")
	rt := w.runtime(t, withImages)
	for _, k := range []string{one.Key, other.Key} {
		decode[api.Settings](t, rt.do(t, http.MethodPost, "/settings/media/create", key(k), text(`{"originals": "signed", "presets": [{"name": "hero", "width": 50, "densities": [1, 2]}, {"name": "full", "width": 4096, "format": "png"}]}`)))
	}
	public := rt.sealed(t, one.Key, filePart("photo.jpg", photo(t, 200, 100)), field("access", "public"))
	private := rt.sealed(t, one.Key, filePart("photo.jpg", photo(t, 200, 100)))
	theirs := rt.sealed(t, other.Key, filePart("photo.jpg", photo(t, 200, 100)))
	file := func(item api.MediaItem, variant string) string {
		return "/media/file/" + item.MediaId.String() + "/" + variant + "/x"
	}
	rt.do(t, http.MethodGet, "/media/get/"+theirs.MediaId.String()+"?fields=presets", key(one.Key)).rejected(t, http.StatusNotFound, "Not Found")
	signed, err := url.Parse(rt.pictures(t, one.Key, private)["hero"].Url)
	must(t, err)
	original, err := url.Parse(rt.do(t, http.MethodGet, "/media/get/"+public.MediaId.String(), key(one.Key)).item(t).File)
	must(t, err)
	for _, item := range []api.MediaItem{public, private, theirs} {
		for _, variant := range []string{"original", "%6Friginal", "ORIGINAL", "original@2x", "original.png", "original%00", "original%2F", "rendition", "rendition-" + private.MediaId.String()} {
			rt.do(t, http.MethodGet, file(item, variant)).Is(t, http.StatusNotFound, "%s", file(item, variant))
			rt.do(t, http.MethodGet, file(item, variant)+"?"+signed.RawQuery).Is(t, http.StatusForbidden, "%s with the signature of a picture", file(item, variant))
		}
	}
	for _, variant := range []string{"hero@2x", "hero.webp", "hero@2x.webp", "full", "thumbnail"} {
		rt.do(t, http.MethodGet, file(private, variant)+"?"+signed.RawQuery).Is(t, http.StatusForbidden, "%s with the signature of another picture", variant)
		rt.do(t, http.MethodGet, file(theirs, "hero")+"?"+signed.RawQuery).Is(t, http.StatusForbidden, "an item of another account")
	}
	if n := jobs(t, rt); n != 0 {
		t.Errorf("%g jobs", n)
	}
	rt.do(t, http.MethodGet, file(public, "%6Friginal")+"?"+original.RawQuery).Is(t, http.StatusOK, "the original with its own signature")

	// No answer of a private picture may be shared, and a condition is that of one format.
	tags := map[string]string{}
	for _, kind := range []string{"image/avif", "image/webp", "image/jpeg"} {
		got := rt.do(t, http.MethodGet, signed.String(), header("Accept", kind))
		tags[kind] = got.Header.Get("ETag")
		if got.Status != http.StatusOK || got.Header.Get("Content-Type") != kind {
			t.Errorf("%s: %d %v", kind, got.Status, got.Header)
		}
		for what, send := range map[string]option{"whole": header("X", "x"), "304": header("If-None-Match", tags[kind]), "206": header("Range", "bytes=0-1"), "412": header("If-Match", `"x"`), "416": header("Range", "bytes=999999-")} {
			got := rt.do(t, http.MethodGet, signed.String(), header("Accept", kind), send)
			if cache := got.Header.Get("Cache-Control"); !strings.HasPrefix(cache, "private, max-age=") && cache != "no-store" || !negotiated(got) {
				t.Errorf("%s, %s: %d %v", kind, what, got.Status, got.Header)
			}
		}
	}
	for _, kind := range []string{"image/avif", "image/webp"} {
		if got := rt.do(t, http.MethodGet, signed.String(), header("Accept", kind), header("If-None-Match", tags["image/jpeg"])); got.Status != http.StatusOK || got.Header.Get("ETag") != tags[kind] {
			t.Errorf("%s by the ETag of another format: %d", kind, got.Status)
		}
		rt.do(t, http.MethodGet, signed.String(), header("Accept", kind), header("Range", "bytes=0-1"), header("If-Range", tags["image/jpeg"])).Is(t, http.StatusOK, "%s, a range of another format", kind)
	}
}

func TestPresets_HostileValuesAreRejected(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	change := func(preset string) answer {
		return rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"presets": [`+preset+`]}`))
	}
	for _, name := range []string{`""`, `"original"`, `"webp"`, `"thumbnail"`, `"../x"`, `"a/b"`, `"a.avif"`, `"a@2x"`, `"A"`, `"-a"`, `"a-"`, `"ä"`, `"a\u0000"`, `"a\n"`, `"%2e"`, `"%s%n"`, `"` + strings.Repeat("a", 64) + `"`, `1`, `null`, `["a"]`} {
		change(`{"width": 1, "name": `+name+`}`).rejected(t, http.StatusBadRequest, "Bad Request")
	}
	for _, member := range []string{`"width": 4097`, `"width": 0`, `"width": -1`, `"width": 1.5`, `"width": "1"`, `"width": 2147483648`, `"width": 1e400`, `"width": 18446744073709551617`, `"width": true`, `"height": 4097, "width": 1`, `"width": null`,
		`"width": 1, "quality": 101`, `"width": 1, "quality": 0`, `"width": 1, "quality": 1, "format": "png"`, `"width": 1, "densities": [1, 1]`, `"width": 1, "densities": [0]`, `"width": 1, "densities": [4]`, `"width": 1, "densities": [1, 2, 3, 1]`,
		`"width": 2049, "densities": [2]`, `"height": 1366, "densities": [3]`, `"width": 1, "densities": [null]`, `"width": 1, "fit": "cover"`, `"width": 1, "focus": "point"`, `"width": 1, "background": "#fff"`, `"width": 1, "background": "red"`,
		`"width": 1, "format": "gif"`, `"width": 1, "format": "AVIF"`, `"width": 1, "animated": true, "format": "avif"`, `"width": 1, "Width": 1`} {
		change(`{"name": "a", `+member+`}`).rejected(t, http.StatusBadRequest, "Bad Request")
	}
	for _, preset := range []string{`{"name": "` + strings.Repeat("a", 63) + `", "width": 4096}`, `{"name": "0", "width": 4096, "height": 4096, "fit": "cover", "quality": 100, "densities": [1]}`, `{"name": "a", "height": 1365, "densities": [3, 1]}`, `{"name": "a", "width": 1.0, "quality": 1}`} {
		change(preset).Is(t, http.StatusOK, "%s", preset)
	}
}
