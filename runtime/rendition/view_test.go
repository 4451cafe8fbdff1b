package rendition_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/imaging"
	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/purge"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

// fullEnv asks for as many images as docs/decisions/0056 tells of: make test-views.
const fullEnv = "MEDIASTACK_TEST_FULL"

// maxPatches is the most tokens that a model which counts patches of 28 x 28 pixels may pay.
const maxPatches = 2500

// Whatever the image is: the picture is a JPEG within its bounds, upright, in sRGB, on gray, of the first frame, and without metadata.
func TestView_IsWithinItsBounds(t *testing.T) {
	t.Parallel()
	w := setup(t)
	// The limits are those of an installation that sets none: other tests have lower ones.
	pool, err := imaging.New(t.Context(), imaging.Config{Enabled: true, WorkerPath: testenv.Binary(t, imaging.ProgramName), Workers: 1, Queue: 4, Timeout: 10 * time.Minute,
		MaxBytes: 64 << 20, MaxPixels: 100_000_000, MaxFrames: 1000, MaxAnimationPixels: 50_000_000, Memory: 2 << 30}, imaging.Deps{Registry: w.registry, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(pool.Close)
	w.registry = prometheus.NewRegistry()
	w.service = w.newService(t, pool)
	of := w.tenant(t, 20<<30)
	images, huge := 39, 0
	if os.Getenv(fullEnv) != "" {
		images, huge = 1000, 30
	}
	var took []time.Duration
	slowest := map[string]time.Duration{} // of each kind
	add := func(kind string, one time.Duration) {
		took = append(took, one)
		slowest[kind] = max(slowest[kind], one)
	}
	kinds := imagetest.ViewKinds()
	for i := range images - huge {
		kind := kinds[i%len(kinds)]
		width, height := 64+(i*97)%1200, 64+(i*61)%900
		if i%5 == 4 { // some are those of cameras
			width, height = 2400+(i*37)%1600, 2000+(i*53)%800
		}
		file, err := kind.Make(t.Context(), width, height, i)
		must(t, err)
		add(kind.Name, w.look(t, of, file, fmt.Sprintf("%s %d of %d x %d", kind.Name, i, width, height), rendition.ViewSizes()[i/len(kinds)%2], kind))
	}
	if huge > 0 {
		files, err := imagetest.Huge(t.Context())
		must(t, err)
		for i := range huge {
			file := files[i%len(files)]
			add(file.Name, w.look(t, of, file.Data, file.Name, rendition.ViewSizes()[i/len(files)%2], imagetest.ViewKind{}))
		}
	}
	slices.Sort(took)
	t.Logf("%d views: the median is %v, p99 %v, the longest %v", len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	for kind, longest := range slowest {
		t.Logf("%v for the slowest %s", longest, kind)
	}
}

// look views an image, checks the picture, and returns how long it took.
func (w *world) look(t *testing.T, of tenant, file []byte, name string, size rendition.ViewSize, kind imagetest.ViewKind) time.Duration {
	t.Helper()
	item := w.sealedBytes(t, of.Principal, file)
	began := time.Now()
	view, err := w.service.View(t.Context(), item, of.owner, size)
	took := time.Since(began)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return took
	}
	side, most := size.Bounds()
	picture, err := jpeg.Decode(bytes.NewReader(view.Data))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return took
	}
	at := picture.Bounds().Size()
	if at != image.Pt(view.Width, view.Height) || max(at.X, at.Y) > side || len(view.Data) > most {
		t.Errorf("%s: a %s picture of %v, said to be %d x %d, with %d bytes", name, size, at, view.Width, view.Height, len(view.Data))
	}
	if patches := ((at.X + 27) / 28) * ((at.Y + 27) / 28); patches > maxPatches {
		t.Errorf("%s: %d patches", name, patches)
	}
	for _, metadata := range []string{"Exif", "ICC_PROFILE", "http://ns.adobe.com", "Photoshop", imagetest.Secret} {
		if bytes.Contains(view.Data, []byte(metadata)) {
			t.Errorf("%s: the picture has %s", name, metadata)
		}
	}
	if kind.Corners {
		want := imagetest.Corners
		if kind.Cut {
			want[0] = color.RGBA{rendition.ViewGround[0], rendition.ViewGround[1], rendition.ViewGround[2], 255}
		}
		for i, c := range want {
			x, y := at.X/8+i%2*at.X*3/4, at.Y/8+i/2*at.Y*3/4
			r, g, b, _ := picture.At(x, y).RGBA()
			for channel, pair := range [][2]int{{int(r >> 8), int(c.R)}, {int(g >> 8), int(c.G)}, {int(b >> 8), int(c.B)}} {
				if d := pair[0] - pair[1]; d > 12 || d < -12 {
					t.Errorf("%s: corner %d is %d, %d, %d and not %v (channel %d)", name, i, r>>8, g>>8, b>>8, c, channel)
					break
				}
			}
		}
	}
	return took
}

// A picture that has room for it keeps its quality and all its pixels; noise loses quality first.
func TestView_LosesQualityBeforePixels(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.useImages(t)
	of := w.tenant(t, 100<<20)
	calm := w.sealedBytes(t, of.Principal, imagetest.PNG(imagetest.Picture(1600, 1200)))
	for size, width := range map[rendition.ViewSize]int{rendition.ViewSmall: 512, rendition.ViewLarge: 1024} {
		view, err := w.service.View(t.Context(), calm, of.owner, size)
		if err != nil || view.Width != width || view.Height != width*3/4 {
			t.Errorf("%s: %d x %d, %v", size, view.Width, view.Height, err)
		}
	}
	// 300 x 300 random pixels do not fit 48 KiB with the best quality, and do with less.
	rough := w.sealedBytes(t, of.Principal, imagetest.PNG(imagetest.Noise(300, 300, 1)))
	if view, err := w.service.View(t.Context(), rough, of.owner, rendition.ViewSmall); err != nil || view.Width != 300 || len(view.Data) > 48<<10 {
		t.Errorf("%d x %d with %d bytes, %v", view.Width, view.Height, len(view.Data), err)
	}
	// As many as a small picture has do not fit with the least quality either.
	rougher := w.sealedBytes(t, of.Principal, imagetest.PNG(imagetest.Noise(512, 512, 2)))
	if view, err := w.service.View(t.Context(), rougher, of.owner, rendition.ViewSmall); err != nil || view.Width >= 512 || view.Width < 200 || len(view.Data) > 48<<10 {
		t.Errorf("%d x %d with %d bytes, %v", view.Width, view.Height, len(view.Data), err)
	}
}

// It is a rendition as any other one: made once though 100 ask two replicas, counted, kept by the purge, made again when its object is lost,
// and gone with its item.
func TestView_IsMadeOnceAndEndsWithItsItem(t *testing.T) {
	t.Parallel()
	all := processes(t, 2)
	for _, w := range all {
		w.useImages(t)
	}
	first := all[0]
	of := first.tenant(t, 10<<20)
	item := first.sealedBytes(t, of.Principal, photo(t, 1600, 1200))
	want, err := first.service.View(t.Context(), item, of.owner, rendition.ViewSmall)
	must(t, err)
	concurrently(100, func(i int) {
		view, err := all[i%2].service.View(t.Context(), item, of.owner, rendition.ViewSmall)
		if err != nil || !bytes.Equal(view.Data, want.Data) || view.Width != 512 {
			t.Errorf("%d bytes, %v", len(view.Data), err)
		}
	})
	other := first.sealedBytes(t, of.Principal, photo(t, 1200, 1600))
	concurrently(100, func(i int) {
		if view, err := all[i%2].service.View(t.Context(), other, of.owner, rendition.ViewLarge); err != nil || view.Height != 1024 {
			t.Errorf("%d x %d, %v", view.Width, view.Height, err)
		}
	})
	jobs(t, 2, all...)
	if rows := first.rows(t, of); rows != 2 {
		t.Errorf("%d rows", rows)
	}
	if counted := first.QueryInt(t, `SELECT rendition_bytes FROM account_usage WHERE account_id = $1`, of.Account().ID); counted < int64(len(want.Data)) {
		t.Errorf("%d bytes are counted", counted)
	}
	deps := rendition.PurgeDeps{Store: first.Store.Pictures, Presets: rendition.NewPresets(settings.NewService(first.Store.Settings)), Log: slog.New(slog.DiscardHandler), Batches: purge.Batches{Size: 50}}
	for _, later := range []time.Duration{0, 100 * 24 * time.Hour} {
		if ended, err := rendition.Purge(t.Context(), rendition.PurgeConfig{}, deps, time.Now().Add(later)); err != nil || ended != 0 {
			t.Errorf("the purge ended %d, %v", ended, err)
		}
	}
	must(t, first.Objects.Remove(t.Context(), of.owner.Bucket, slices.DeleteFunc(first.objects(t, of), func(key string) bool {
		return !strings.Contains(key, item.ID.String()+"/rendition-")
	})))
	if view, err := first.service.View(t.Context(), item, of.owner, rendition.ViewSmall); err != nil || !bytes.Equal(view.Data, want.Data) {
		t.Errorf("its object was lost: %d bytes, %v", len(view.Data), err)
	}
	jobs(t, 3, all...)
	for _, one := range []media.Item{item, other} {
		_, err = first.core.Media.Delete(t.Context(), of.Principal, one.ID, media.DeleteOptions{})
		must(t, err)
	}
	if _, err := all[1].service.View(t.Context(), item, of.owner, rendition.ViewLarge); !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.FileLost) {
		t.Errorf("its item was deleted: %v", err)
	}
	if rows := first.rows(t, of); rows != 0 {
		t.Errorf("%d rows are left", rows)
	}
	first.balanced(t, of)
}

// No client gets a view in the place of another picture: it has less quality, and a ground of its own.
func TestView_IsNoSubstitute(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.useImages(t)
	of := w.tenant(t, 10<<20)
	item := w.sealedBytes(t, of.Principal, photo(t, 1600, 1200))
	for _, size := range rendition.ViewSizes() {
		if _, err := w.service.View(t.Context(), item, of.owner, size); err != nil {
			t.Fatal(err)
		}
	}
	if found, preset, err := w.service.Nearest(t.Context(), item, 512, 384); !fault.Is(err, fault.NotFound) {
		t.Errorf("%s of %d x %d, %v", preset, found.Width, found.Height, err)
	}
	_, err := w.service.Get(t.Context(), item, of.owner, rendition.Request{Preset: "hero", Recipe: media.Recipe{Width: 100, Fit: settings.Inside, Focus: settings.Centre, Format: settings.FormatJPEG, Quality: 80}})
	must(t, err)
	if found, preset, err := w.service.Nearest(t.Context(), item, 512, 384); err != nil || preset != "hero" {
		t.Errorf("%s of %d x %d, %v", preset, found.Width, found.Height, err)
	}
}

// A cap on the bytes of renditions that is lower than that of a view bounds the view, too.
func TestView_FitsTheCapOfRenditions(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *rendition.Config) { c.MaxBytes = 64 << 10 })
	w.useImages(t)
	of := w.tenant(t, 100<<20)
	item := w.sealedBytes(t, of.Principal, imagetest.JPEG(imagetest.Noise(1200, 1200, 3)))
	if view, err := w.service.View(t.Context(), item, of.owner, rendition.ViewLarge); err != nil || len(view.Data) > 64<<10 {
		t.Errorf("%d bytes, %v", len(view.Data), err)
	}
}

func TestView_OfWhatIsNoImageFails(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.useImages(t)
	of := w.tenant(t, 10<<20)
	for name, file := range map[string][]byte{"a text": []byte("a text"), "a broken file": append(photoHeader(t), make([]byte, 3000)...)} {
		item := w.sealedBytes(t, of.Principal, file)
		if _, err := w.service.View(t.Context(), item, of.owner, rendition.ViewSmall); !fault.Is(err, fault.UnsupportedType) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.service.View(context.Background(), media.Item{}, of.owner, "huge"); !fault.Is(err, fault.Invalid) {
		t.Errorf("a size that is none: %v", err)
	}
	if rows := w.rows(t, of); rows != 0 {
		t.Errorf("%d rows", rows)
	}
}
