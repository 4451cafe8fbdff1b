package imaging_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/imaging"
	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// renderJob returns a job on demand.
func renderJob(mimeType string, file []byte, recipes ...media.Recipe) media.RenderJob {
	return media.RenderJob{
		ItemID: uuid.New(), AccountID: uuid.New(), MimeType: mimeType, Bytes: int64(len(file)), Recipes: recipes,
		Source: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file)), nil },
	}
}

// recipe returns a recipe with what is usual.
func recipe(width, height int, fit settings.Fit, format settings.Format) media.Recipe {
	return media.Recipe{Width: width, Height: height, Fit: fit, Focus: settings.Centre, Format: format, Quality: format.Spec().DefaultQuality(), Background: [3]byte{255, 255, 255}}
}

// rendered returns the only picture of a recipe.
func (b *harness) rendered(mimeType string, file []byte, r media.Recipe) media.Rendered {
	b.t.Helper()
	pictures, err := b.Render(b.t.Context(), renderJob(mimeType, file, r))
	if err != nil || len(pictures) != 1 || pictures[0].Err != nil {
		b.t.Fatalf("%+v: %v, %v; log %s", r, pictures, err, b.log)
	}
	return pictures[0]
}

// pixels decodes a picture with the vips command line, which package imaging does not use.
func pixels(t testing.TB, picture media.Rendered) *image.NRGBA {
	t.Helper()
	in, out := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "out.png")
	if err := os.WriteFile(in, picture.Data, 0o600); err != nil {
		t.Fatal(err)
	}
	tool(t, "vips", "copy", in, out)
	file, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if got := decoded.Bounds().Size(); got != image.Pt(picture.Width, picture.Height) {
		t.Errorf("the picture has %v pixels, its result says %d x %d", got, picture.Width, picture.Height)
	}
	plain := image.NewNRGBA(decoded.Bounds())
	for y := range plain.Rect.Dy() {
		for x := range plain.Rect.Dx() {
			plain.Set(x, y, decoded.At(x, y))
		}
	}
	return plain
}

// difference returns the mean and the largest difference of the channels of two pictures; what is transparent has no colour.
func difference(a, b *image.NRGBA) (mean, most float64) {
	if a.Rect != b.Rect {
		return math.Inf(1), math.Inf(1)
	}
	sum := 0.0
	for i := 0; i < len(a.Pix); i += 4 {
		for c := range 4 {
			x, y := float64(a.Pix[i+c]), float64(b.Pix[i+c])
			if c < 3 {
				x, y = x*float64(a.Pix[i+3])/255, y*float64(b.Pix[i+3])/255
			}
			d := math.Abs(x - y)
			sum, most = sum+d, max(most, d)
		}
	}
	return sum / float64(len(a.Pix)), most
}

// golden compares a picture with a stored one. UPDATE_GOLDEN=1 stores it instead.
func golden(t *testing.T, name string, got *image.NRGBA, mean float64) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".png")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		var file bytes.Buffer
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&file, got), os.WriteFile(path, file.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
		return
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	decoded, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	want := image.NewNRGBA(decoded.Bounds())
	for y := range want.Rect.Dy() {
		for x := range want.Rect.Dx() {
			want.Set(x, y, decoded.At(x, y))
		}
	}
	if d, most := difference(got, want); d > mean {
		t.Errorf("%s differs by %.2f, at most %.0f, of 255", name, d, most)
	}
}

// scene is a smooth picture with one bright, detailed spot away from its middle.
func scene() *image.NRGBA {
	picture := image.NewNRGBA(image.Rect(0, 0, imagetest.Width, imagetest.Height))
	for y := range imagetest.Height {
		for x := range imagetest.Width {
			c := color.NRGBA{uint8(40 + x/6), uint8(60 + y/6), 120, 255}
			if dx, dy := x-480, y-100; dx*dx+dy*dy < 60*60 {
				c = color.NRGBA{250, uint8(90 + 80*((x/8+y/8)%2)), 60, 255}
			}
			picture.SetNRGBA(x, y, c)
		}
	}
	return picture
}

func TestRender_FitsAndFocuses(t *testing.T) {
	t.Parallel()
	pool := open(t, config(realWorker(t)))
	file := imagetest.PNG(scene())
	for name, change := range map[string]func(*media.Recipe){
		"inside":          func(r *media.Recipe) {},
		"inside-width":    func(r *media.Recipe) { r.Height = 0 },
		"cover-centre":    func(r *media.Recipe) { r.Fit = settings.Cover },
		"cover-attention": func(r *media.Recipe) { r.Fit, r.Focus = settings.Cover, settings.Attention },
		"cover-entropy":   func(r *media.Recipe) { r.Fit, r.Focus = settings.Cover, settings.Entropy },
		"cover-point":     func(r *media.Recipe) { r.Fit, r.Focus, r.PointX, r.PointY = settings.Cover, settings.Point, 900, 200 },
		"cover-low": func(r *media.Recipe) {
			r.Fit, r.Height, r.Focus, r.PointX, r.PointY = settings.Cover, 30, settings.Point, 0, 1000
		},
		"pad":              func(r *media.Recipe) { r.Fit, r.Background = settings.Pad, [3]byte{10, 200, 30} },
		"pad-small":        func(r *media.Recipe) { r.Fit, r.Width, r.Height = settings.Pad, 700, 500 },
		"cover-too-large":  func(r *media.Recipe) { r.Fit, r.Width, r.Height = settings.Cover, 2000, 1000 },
		"inside-too-large": func(r *media.Recipe) { r.Width, r.Height = 2000, 1000 },
		"sharpened":        func(r *media.Recipe) { r.Sharpen = true },
	} {
		r := recipe(90, 90, settings.Inside, settings.FormatPNG)
		change(&r)
		picture := pool.rendered("image/png", file, r)
		if width, height := r.Size(imagetest.Width, imagetest.Height); picture.MimeType != "image/png" || picture.Width != width || picture.Height != height {
			t.Errorf("%s: %s of %d x %d, want %d x %d", name, picture.MimeType, picture.Width, picture.Height, width, height)
		}
		got := pixels(t, picture)
		switch name {
		case "inside-too-large":
			if _, most := difference(got, scene()); most > 0 {
				t.Errorf("%s: it is not the original", name)
			}
		case "pad-small", "cover-too-large": // large for a file; what is around and within the image
			if corner := got.NRGBAAt(0, 0); name == "pad-small" && corner != (color.NRGBA{255, 255, 255, 255}) {
				t.Errorf("%s: the corner is %v", name, corner)
			}
			if spot := got.NRGBAAt(480+(got.Rect.Dx()-600)/2, 100+(got.Rect.Dy()-400)/2); spot.R < 240 {
				t.Errorf("%s: no spot: %v", name, spot)
			}
		default:
			golden(t, name, got, 1)
		}
	}
}

// A picture that keeps its size is not sharpened, and one that shrinks is.
func TestRender_SharpensWhatWasShrunk(t *testing.T) {
	t.Parallel()
	pool := open(t, config(realWorker(t)))
	file := imagetest.PNG(scene())
	for _, c := range []struct {
		side    int
		changes bool
	}{{90, true}, {600, false}} {
		r := recipe(c.side, 0, settings.Inside, settings.FormatPNG)
		plain := pixels(t, pool.rendered("image/png", file, r))
		r.Sharpen = true
		sharp := pixels(t, pool.rendered("image/png", file, r))
		if mean, most := difference(plain, sharp); (most > 0) != c.changes || mean > 8 {
			t.Errorf("of %d pixels: %.2f, at most %.0f", c.side, mean, most)
		}
	}
}

func TestRender_Orientations(t *testing.T) {
	t.Parallel()
	pool := open(t, config(realWorker(t)))
	for orientation := 1; orientation <= 8; orientation++ {
		file := imagetest.WithEXIF(imagetest.JPEG(imagetest.Stored(scene(), orientation)), orientation)
		for _, fit := range []settings.Fit{settings.Inside, settings.Cover, settings.Pad} {
			r := recipe(90, 90, fit, settings.FormatPNG)
			r.Focus, r.PointX, r.PointY = settings.Point, 900, 200
			// All eight are the same picture.
			golden(t, "upright-"+string(fit), pixels(t, pool.rendered("image/jpeg", file, r)), 2)
		}
	}
}

func TestRender_Formats(t *testing.T) {
	t.Parallel()
	pool := open(t, config(realWorker(t)))
	cut := scene()
	for y := range 200 {
		for x := range 300 {
			cut.SetNRGBA(x, y, color.NRGBA{})
		}
	}
	whole := scene()
	opaque := image.NewNRGBA64(whole.Rect) // an alpha channel that says nothing
	for y := range opaque.Rect.Dy() {
		for x := range opaque.Rect.Dx() {
			opaque.Set(x, y, whole.At(x, y))
		}
	}
	flat := [3]byte{10, 200, 30}
	for _, c := range []struct {
		format   settings.Format
		name     string
		file     []byte
		mimeType string
		golden   string
	}{
		{settings.FormatWebP, "opaque", imagetest.PNG(scene()), "image/webp", "format-opaque"},
		{settings.FormatAVIF, "opaque", imagetest.PNG(scene()), "image/avif", "format-opaque"},
		{settings.FormatJPEG, "opaque", imagetest.PNG(scene()), "image/jpeg", "format-opaque"},
		{settings.FormatPNG, "opaque", imagetest.PNG(scene()), "image/png", "format-opaque"},
		{settings.FormatAuto, "opaque", imagetest.PNG(scene()), "image/jpeg", "format-opaque"},
		{settings.FormatAuto, "16 bits", imagetest.PNG(opaque), "image/jpeg", "format-opaque"},
		{settings.FormatWebP, "transparent", imagetest.PNG(cut), "image/webp", "format-transparent"},
		{settings.FormatAVIF, "transparent", imagetest.PNG(cut), "image/avif", "format-transparent"},
		{settings.FormatJPEG, "transparent", imagetest.PNG(cut), "image/jpeg", "format-flat"},
		{settings.FormatPNG, "transparent", imagetest.PNG(cut), "image/png", "format-transparent"},
		{settings.FormatAuto, "transparent", imagetest.PNG(cut), "image/png", "format-transparent"},
	} {
		r := recipe(120, 120, settings.Inside, c.format)
		r.Background = flat
		picture := pool.rendered("image/png", c.file, r)
		if picture.MimeType != c.mimeType {
			t.Errorf("%s of the %s one: %s", c.format, c.name, picture.MimeType)
		}
		golden(t, c.golden, pixels(t, picture), 4)
	}
}

// The same picture in another color space has the same colors.
func TestRender_ColorProfiles(t *testing.T) {
	t.Parallel()
	files, err := imagetest.Wide(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pool := open(t, config(realWorker(t)))
	for _, file := range files {
		for _, format := range []settings.Format{settings.FormatPNG, settings.FormatAVIF, settings.FormatJPEG, settings.FormatWebP} {
			r := recipe(90, 90, settings.Inside, format)
			look(t, file.Name+" as "+string(format), pixels(t, pool.rendered(file.MimeType, file.Data, r)), thePicture)
		}
	}
}

// The pictures of several recipes are those that each recipe makes alone: what is decoded once is what
// each would decode.
func TestRender_SeveralRecipesMakeThePicturesOfEach(t *testing.T) {
	t.Parallel()
	corpus, err := imagetest.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pool := open(t, config(realWorker(t)))
	corpus = append(corpus, imagetest.File{Name: "jpeg of 3 megapixels", MimeType: "image/jpeg", Data: imagetest.JPEG(imagetest.Photo(2001, 1501))})
	recipes := []media.Recipe{
		recipe(64, 0, settings.Inside, settings.FormatPNG), recipe(100, 100, settings.Cover, settings.FormatPNG), recipe(120, 120, settings.Pad, settings.FormatPNG),
		recipe(200, 200, settings.Inside, settings.FormatPNG), recipe(0, 390, settings.Inside, settings.FormatPNG), recipe(1000, 0, settings.Inside, settings.FormatPNG),
	}
	compared := 0
	for _, file := range corpus {
		if outcomes[file.Name].rejected != "" {
			continue
		}
		all, err := pool.Render(t.Context(), renderJob(file.MimeType, file.Data, recipes...))
		if err != nil {
			t.Errorf("%s: %v", file.Name, err)
			continue
		}
		for i, r := range recipes {
			if alone := pool.rendered(file.MimeType, file.Data, r); all[i].Err != nil || !bytes.Equal(all[i].Data, alone.Data) {
				t.Errorf("%s, %d x %d %s: it differs, %v", file.Name, r.Width, r.Height, r.Fit, all[i].Err)
			}
			compared++
		}
	}
	if compared < 200 {
		t.Errorf("compared %d pictures", compared)
	}
}

// Every file of the corpus through every kind of recipe: what is an image has pictures of the size that Recipe.Size says,
// without metadata, and what is none is unsupported.
func TestRender_Corpus(t *testing.T) {
	t.Parallel()
	corpus, err := imagetest.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pool := open(t, config(realWorker(t)))
	var recipes []media.Recipe
	for i, format := range []settings.Format{settings.FormatAuto, settings.FormatWebP, settings.FormatAVIF, settings.FormatJPEG, settings.FormatPNG, settings.FormatWebP, settings.FormatAVIF, settings.FormatAuto} {
		r := recipe(80+i, 60, []settings.Fit{settings.Inside, settings.Cover, settings.Pad}[i%3], format)
		r.Focus = []settings.Focus{settings.Centre, settings.Attention, settings.Entropy, settings.Point}[i%4]
		r.Sharpen, r.Animated = i%2 == 0, i == 5
		recipes = append(recipes, r)
	}
	folder := t.TempDir()
	written := 0
	for _, file := range corpus {
		want := outcomes[file.Name]
		pictures, err := pool.Render(t.Context(), renderJob(file.MimeType, file.Data, recipes...))
		if want.rejected != "" {
			if !fault.Is(err, fault.UnsupportedType) {
				t.Errorf("%s: %d pictures, %v", file.Name, len(pictures), err)
			}
			continue
		}
		if err != nil || len(pictures) != len(recipes) {
			t.Errorf("%s: %d pictures, %v", file.Name, len(pictures), err)
			continue
		}
		size := cmp.Or(want.displayed, want.converted, image.Pt(600, 400))
		for i, picture := range pictures {
			width, height := recipes[i].Size(size.X, size.Y)
			if picture.Err != nil || picture.Width != width || picture.Height != height {
				t.Errorf("%s, recipe %d: %d x %d, want %d x %d, %v", file.Name, i, picture.Width, picture.Height, width, height, picture.Err)
				continue
			}
			if bytes.Contains(picture.Data, []byte(imagetest.Secret)) {
				t.Errorf("%s, recipe %d has the file's secret metadata", file.Name, i)
			}
			name := fmt.Sprintf("%04d.%s", written, strings.TrimPrefix(picture.MimeType, "image/"))
			if err := os.WriteFile(filepath.Join(folder, name), picture.Data, 0o600); err != nil {
				t.Fatal(err)
			}
			written++
		}
	}
	if written < 300 {
		t.Errorf("only %d pictures", written)
	}
	withoutMetadata(t, folder)
	for _, reason := range []string{"crashed", "start_failed", "canceled"} {
		if n := pool.metric("mediastack_image_worker_exits_total", reason); n != 0 {
			t.Errorf("%g workers ended (%s): %s", n, reason, pool.log)
		}
	}
}

// The animation has the frames and the times of the original, all cut at the same place.
func TestRender_KeepsAnimations(t *testing.T) {
	t.Parallel()
	pool := open(t, config(realWorker(t)))
	moving := imagetest.Moving(imagetest.Width, imagetest.Height, 5)
	for _, fit := range []settings.Fit{settings.Inside, settings.Cover, settings.Pad} {
		r := recipe(90, 90, fit, settings.FormatWebP)
		r.Focus = settings.Attention
		still := pool.rendered("image/gif", moving, r)
		r.Animated = true
		picture := pool.rendered("image/gif", moving, r)
		path := filepath.Join(t.TempDir(), "animation.webp")
		if err := os.WriteFile(path, picture.Data, 0o600); err != nil {
			t.Fatal(err)
		}
		header := string(tool(t, "vipsheader", "-a", path))
		for _, want := range []string{"n-pages: 5", "delay: 100 100 100 100 100", "loop: 0"} {
			if !strings.Contains(header, want) {
				t.Errorf("%s: no %q in %s", fit, want, header)
			}
		}
		if mean, _ := difference(pixels(t, picture), pixels(t, still)); mean > 3 {
			t.Errorf("%s: the first frame differs by %.1f from the still picture", fit, mean)
		}
	}

	cfg := config(realWorker(t))
	cfg.MaxAnimationPixels = 5*imagetest.Width*imagetest.Height - 1
	r := recipe(90, 90, settings.Inside, settings.FormatWebP)
	r.Animated = true
	if large := open(t, cfg).rendered("image/gif", moving, r); bytes.Contains(large.Data, []byte("ANMF")) {
		t.Error("an animation over the limit was kept")
	}
}

func TestRender_PicturesThatAreTooLargeAreNotOffered(t *testing.T) {
	t.Parallel()
	pool := open(t, config(realWorker(t)))
	file := imagetest.BlankPNG(2049, 2048, 8, 2, false)
	recipes := []media.Recipe{recipe(2049, 0, settings.Inside, settings.FormatAVIF), recipe(100, 0, settings.Inside, settings.FormatAVIF), recipe(2048, 0, settings.Inside, settings.FormatWebP)}
	pictures, err := pool.Render(t.Context(), renderJob("image/png", file, recipes...))
	if err != nil {
		t.Fatal(err)
	}
	for i, picture := range pictures {
		offered := recipes[i].Offered(2049, 2048)
		if offered != (i > 0) || offered != (picture.Err == nil) {
			t.Errorf("recipe %d: offered %t, %v", i, offered, picture.Err)
		}
	}
	if err := pictures[0].Err; !errors.Is(err, media.ErrNotOffered) || !fault.Is(err, fault.UnsupportedType) {
		t.Errorf("got %v", err)
	}
	tall := recipe(100, 0, settings.Inside, settings.FormatWebP)
	pictures, err = pool.Render(t.Context(), renderJob("image/png", imagetest.BlankPNG(100, 16384, 8, 2, false), tall))
	if err != nil || !errors.Is(pictures[0].Err, media.ErrNotOffered) || tall.Offered(100, 16384) {
		t.Errorf("a WebP of 16384 pixels: %v, %v", pictures, err)
	}
}

// What is offered can be encoded, and decoded by others. JPEGs of over 65500 pixels failed with another reason, AVIF of over 16384
// was made although most decoders reject it, and of over 65536 was a file without an image.
func TestRender_WhatIsOfferedCanBeDecoded(t *testing.T) {
	t.Parallel()
	pool := open(t, config(realWorker(t)))
	for _, c := range []struct {
		format settings.Format
		side   int // the largest; 0 = there is none
	}{{settings.FormatWebP, 16383}, {settings.FormatAVIF, 16384}, {settings.FormatJPEG, 65500}, {settings.FormatAuto, 65500}, {settings.FormatPNG, 0}} {
		for _, side := range []int{16383, 16384, 16385, 65500, 65501, 65536, 65537, 200_000} {
			tall, wide := recipe(8, 0, settings.Inside, c.format), recipe(0, 8, settings.Inside, c.format)
			for at, r := range map[image.Point]media.Recipe{{X: 8, Y: side}: tall, {X: side, Y: 8}: wide} {
				offered := r.Offered(at.X, at.Y)
				if want := c.side == 0 || side <= c.side; offered != want {
					t.Errorf("%s of %v: offered %t", c.format, at, offered)
				}
				pictures, err := pool.Render(t.Context(), renderJob("image/png", imagetest.BlankPNG(at.X, at.Y, 8, 2, false), r))
				switch {
				case err != nil:
					t.Errorf("%s of %v: %v", c.format, at, err)
				case !offered && !errors.Is(pictures[0].Err, media.ErrNotOffered), offered && pictures[0].Err != nil:
					t.Errorf("%s of %v: offered %t, %v", c.format, at, offered, pictures[0].Err)
				case offered:
					if got := pixels(t, pictures[0]).Rect.Size(); got != at {
						t.Errorf("%s of %v has %v", c.format, at, got)
					}
				}
			}
		}
	}
}

// The largest pictures fit into the memory that a worker has by default.
func TestRender_LargestPicturesFitIntoTheMemory(t *testing.T) {
	t.Parallel()
	pool := open(t, config(realWorker(t)))
	file := imagetest.BlankPNG(9990, 9990, 8, 6, false)
	recipes := []media.Recipe{
		recipe(2048, 2048, settings.Inside, settings.FormatAVIF), recipe(4096, 4096, settings.Cover, settings.FormatWebP),
		recipe(4096, 4096, settings.Pad, settings.FormatJPEG), recipe(4096, 4096, settings.Inside, settings.FormatAuto),
	}
	recipes[1].Focus = settings.Attention
	pictures, err := pool.Render(t.Context(), renderJob("image/png", file, recipes...))
	if err != nil {
		t.Fatal(err)
	}
	for i, picture := range pictures {
		if picture.Err != nil {
			t.Errorf("recipe %d: %v", i, picture.Err)
		}
	}
}

// A job may have a bound of its own on the bytes of its pictures, which the worker and the runtime check.
func TestRender_BoundsTheBytesOfPictures(t *testing.T) {
	t.Parallel()
	pool := open(t, config(realWorker(t)))
	job := renderJob("image/png", imagetest.PNG(imagetest.Picture(400, 300)), recipe(10, 10, settings.Inside, settings.FormatPNG), recipe(400, 300, settings.Inside, settings.FormatPNG))
	job.MaxBytes = 1000
	pictures, err := pool.Render(t.Context(), job)
	if err != nil || pictures[0].Err != nil || !fault.Is(pictures[1].Err, fault.UnsupportedType) || !strings.Contains(pictures[1].Err.Error(), "too many bytes") {
		t.Errorf("%v, %v", pictures, err)
	}
	lying := renderJob("image/jpeg", []byte("ignored"), recipe(1, 1, settings.Inside, settings.FormatWebP))
	lying.MaxBytes = int64(len(pixel())) - 1
	if _, err := open(t, config(fakeWorker(t, "works"))).Render(t.Context(), lying); !errors.Is(err, media.ErrWorkerFailed) {
		t.Errorf("a worker that sends more: %v", err)
	}
}

// The chart gives a worker less memory than the default.
func TestRender_LargestAVIFFitsIntoTheMemoryOfTheChart(t *testing.T) {
	t.Parallel()
	values, err := os.ReadFile("../../../charts/mediastack/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var memory int64
	for line := range strings.Lines(string(values)) {
		if bytes, found := strings.CutPrefix(strings.TrimSpace(line), "memory: "); found {
			if n, err := strconv.ParseInt(bytes, 10, 64); err == nil {
				memory = n
			}
		}
	}
	if memory < 256<<20 {
		t.Fatalf("the chart gives workers %d bytes", memory)
	}
	cfg := config(realWorker(t))
	cfg.Memory = memory
	pool := open(t, cfg)
	noise := image.NewNRGBA(image.Rect(0, 0, 2048, 2048))
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(noise.Pix)
	for name, file := range map[string]struct {
		mimeType string
		data     []byte
	}{"noise with transparency": {"image/png", imagetest.PNG(noise)}, "the largest image": {"image/png", imagetest.BlankPNG(9990, 9990, 8, 6, false)}} {
		picture := pool.rendered(file.mimeType, file.data, recipe(2048, 2048, settings.Inside, settings.FormatAVIF))
		if picture.MimeType != "image/avif" || picture.Width*picture.Height != 4<<20 {
			t.Errorf("%s: %s of %d x %d", name, picture.MimeType, picture.Width, picture.Height)
		}
	}
}

// The failure of an encoder is not the file's.
func TestRender_SaysThatAnotherFormatMaySucceed(t *testing.T) {
	t.Parallel()
	avif, webp := recipe(1, 1, settings.Inside, settings.FormatAVIF), recipe(1, 1, settings.Inside, settings.FormatWebP)
	for name, c := range map[string]struct {
		role    string
		recipes []media.Recipe
		other   bool
		kind    fault.Kind
	}{
		"workers that die of AVIF":    {"crashes", []media.Recipe{avif}, true, fault.Unavailable},
		"workers that die of a file":  {"crashes", []media.Recipe{webp}, false, fault.Unavailable},
		"workers that die of several": {"crashes", []media.Recipe{avif, webp}, false, fault.Unavailable},
		"workers that hang":           {"hangs", []media.Recipe{avif}, false, fault.Unavailable},
		"an encoder that fails":       {"fails-both", []media.Recipe{avif, avif}, true, fault.UnsupportedType},
		"a broken file":               {"rejects", []media.Recipe{avif}, false, fault.UnsupportedType},
	} {
		cfg := config(fakeWorker(t, c.role))
		if c.role == "hangs" {
			cfg.Timeout = time.Second
		}
		pictures, err := open(t, cfg).Render(t.Context(), renderJob("image/jpeg", []byte("ignored"), c.recipes...))
		if err == nil {
			err = pictures[0].Err
		}
		if errors.Is(err, media.ErrOtherFormat) != c.other || !fault.Is(err, c.kind) || errors.Is(err, media.ErrWorkerFailed) != (c.kind == fault.Unavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRender_ErrorKinds(t *testing.T) {
	t.Parallel()
	r := recipe(1, 1, settings.Inside, settings.FormatWebP)
	for role, want := range map[string]fault.Kind{"rejects": fault.UnsupportedType, "crashes": fault.Unavailable, "works": fault.Internal} {
		pictures, err := open(t, config(fakeWorker(t, role))).Render(t.Context(), renderJob("image/jpeg", []byte("ignored"), r))
		if (err == nil) != (role == "works") || err != nil && !fault.Is(err, want) {
			t.Errorf("%s: %v, %v", role, pictures, err)
		}
	}
	pictures, err := open(t, config(fakeWorker(t, "crashes-after-the-first"))).Render(t.Context(), renderJob("image/jpeg", []byte("ignored"), r, r))
	if err != nil || pictures[0].Err != nil || !fault.Is(pictures[1].Err, fault.Unavailable) {
		t.Errorf("a worker that crashes after the first: %v, %v", pictures, err)
	}
	pictures, err = open(t, config(fakeWorker(t, "fails-the-second"))).Render(t.Context(), renderJob("image/jpeg", []byte("ignored"), r, r))
	if err != nil || pictures[0].Err != nil || !fault.Is(pictures[1].Err, fault.UnsupportedType) || errors.Is(pictures[1].Err, media.ErrNotOffered) {
		t.Errorf("a worker that fails the second: %v, %v", pictures, err)
	}
	pool := open(t, config(fakeWorker(t, "works")))
	for name, job := range map[string]media.RenderJob{
		"no recipes":    renderJob("image/jpeg", []byte("ignored")),
		"nine recipes":  renderJob("image/jpeg", []byte("ignored"), r, r, r, r, r, r, r, r, r),
		"no box":        renderJob("image/jpeg", []byte("ignored"), recipe(0, 0, settings.Inside, settings.FormatPNG)),
		"a wide box":    renderJob("image/jpeg", []byte("ignored"), recipe(1<<14, 1, settings.Inside, settings.FormatPNG)),
		"no fit":        renderJob("image/jpeg", []byte("ignored"), recipe(1, 1, "", settings.FormatPNG)),
		"no format":     renderJob("image/jpeg", []byte("ignored"), recipe(1, 1, settings.Pad, "tiff")),
		"another focus": renderJob("image/jpeg", []byte("ignored"), media.Recipe{Width: 1, Fit: settings.Cover, Focus: "left", Format: settings.FormatPNG}),
	} {
		if _, err := pool.Render(t.Context(), job); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := pool.Render(t.Context(), renderJob("application/pdf", []byte("ignored"), r)); !fault.Is(err, fault.UnsupportedType) {
		t.Errorf("a PDF: %v", err)
	}
	away := renderJob("image/jpeg", []byte("ignored"), r)
	away.Source = func(context.Context) (io.ReadCloser, error) { return nil, fault.New(fault.FileLost, "it is gone") }
	if _, err := pool.Render(t.Context(), away); !fault.Is(err, fault.FileLost) {
		t.Errorf("a file that is lost: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pool.Render(gone, renderJob("image/jpeg", []byte("ignored"), r)); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that has left: %v", err)
	}
}

// A file on which workers die, or that takes them too long, is told from workers that do not start. What took too long for a
// client that waits is not tried again.
func TestRender_SaysThatTheWorkersFailedOnTheFile(t *testing.T) {
	t.Parallel()
	for role, c := range map[string]struct {
		purpose media.Purpose
		opened  int
	}{"crashes": {media.OnDemand, 2}, "hangs": {media.OnDemand, 1}, "hangs ": {media.Eager, 2}} {
		cfg := config(fakeWorker(t, strings.TrimSpace(role)))
		if role != "crashes" {
			cfg.Timeout = time.Second
		}
		job := renderJob("image/jpeg", []byte("ignored"), recipe(1, 1, settings.Inside, settings.FormatWebP))
		job.Purpose = c.purpose
		opened, source := 0, job.Source
		job.Source = func(ctx context.Context) (io.ReadCloser, error) { opened++; return source(ctx) }
		if _, err := open(t, cfg).Render(t.Context(), job); !errors.Is(err, media.ErrWorkerFailed) || !fault.Is(err, fault.Unavailable) || opened != c.opened {
			t.Errorf("%s: %v, the file was read %d times", role, err, opened)
		}
	}
	pool := open(t, config(fakeWorker(t, "starts-once")))
	if _, err := pool.Render(t.Context(), renderJob("image/jpeg", []byte("ignored"), recipe(1, 1, settings.Inside, settings.FormatWebP))); errors.Is(err, media.ErrWorkerFailed) || !fault.Is(err, fault.Unavailable) {
		t.Errorf("a worker that does not start: %v", err)
	}
}

// A client that left in the moment in which a worker took its job killed the worker.
func TestRender_EndedWhenItIsTakenKillsNoWorker(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "works")))
	job := renderJob("image/jpeg", []byte("ignored"), recipe(1, 1, settings.Inside, settings.FormatWebP))
	ctx, cancel := context.WithCancel(t.Context())
	job.Taken = cancel
	if _, err := pool.Render(ctx, job); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if n := pool.metric("mediastack_image_worker_exits_total", "canceled"); n != 0 {
		t.Errorf("%v workers were killed", n)
	}
	job.Taken = nil
	if _, err := pool.Render(t.Context(), job); err != nil {
		t.Errorf("the next job: %v", err)
	}
}

// holdRender is hold for a rendition.
func holdRender(account uuid.UUID, purpose media.Purpose, begin func()) (job media.RenderJob, h held) {
	h = hold(account, begin)
	job = renderJob("image/jpeg", []byte("ignored"), recipe(1, 1, settings.Inside, settings.FormatWebP))
	job.AccountID, job.Purpose, job.Source = account, purpose, h.Source
	return job, h
}

func (b *harness) beginRender(ctx context.Context, job media.RenderJob) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := b.Render(ctx, job)
		done <- err
	}()
	return done
}

// However many accounts ask for renditions, every other job is an upload's. What nobody waits for comes last.
func TestRender_PurposesTakeTurns(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "works")))
	blocker := hold(uuid.New(), nil)
	first := pool.begin(t.Context(), blocker.ImageJob)
	<-blocker.started
	var order []string
	var renders []<-chan error
	var uploads []<-chan derived
	for i, name := range []string{"eager1", "demand1", "demand2", "demand3", "eager2", "upload1", "upload2", "upload3"} {
		begin := func() { order = append(order, name[:len(name)-1]) }
		switch {
		case strings.HasPrefix(name, "upload"):
			h := hold(uuid.New(), begin)
			h.release()
			uploads = append(uploads, pool.begin(t.Context(), h.ImageJob))
		default:
			purpose := media.OnDemand
			if strings.HasPrefix(name, "eager") {
				purpose = media.Eager
			}
			job, h := holdRender(uuid.New(), purpose, begin)
			h.release()
			renders = append(renders, pool.beginRender(t.Context(), job))
		}
		pool.waiting(i + 1)
	}
	blocker.release()
	for _, done := range append(uploads, first) {
		if d := <-done; d.err != nil {
			t.Error(d.err)
		}
	}
	for _, done := range renders {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if len(order) != 8 {
		t.Fatalf("%v", order)
	}
	for i, name := range order {
		switch {
		case (name == "eager") != (i >= 6):
			t.Errorf("job %d is %s: %v", i, name, order)
		case i > 0 && i < 6 && name == order[i-1]:
			t.Errorf("two of %s in a row, while others wait: %v", name, order)
		}
	}
}

func TestRender_IsBusyWhenTheQueueIsFull(t *testing.T) {
	t.Parallel()
	cfg := config(fakeWorker(t, "works"))
	cfg.RenderQueue = 2
	pool := open(t, cfg)
	hot, quiet := uuid.New(), uuid.New()
	job, h := holdRender(hot, media.OnDemand, nil)
	running := pool.beginRender(t.Context(), job)
	<-h.started
	next, released := holdRender(hot, media.OnDemand, nil)
	released.release()
	waiting := pool.beginRender(t.Context(), next)
	pool.waiting(1)
	_, err := pool.Render(t.Context(), next)
	if f := fault.From(err); f.Kind != fault.Busy || f.RetryAfter <= 0 {
		t.Errorf("the account has half of the queue: %v", err)
	}
	// An upload of the same account, another account, and what nobody waits for are not affected.
	if _, err := pool.Reserve(hot); err != nil {
		t.Errorf("an upload: %v", err)
	}
	slot, err := pool.ReserveRender(quiet)
	if err != nil {
		t.Fatal(err)
	}
	other, released := holdRender(quiet, media.OnDemand, nil)
	released.release()
	other.Slot = slot
	eager, released := holdRender(hot, media.Eager, nil)
	released.release()
	rest := []<-chan error{pool.beginRender(t.Context(), other), pool.beginRender(t.Context(), eager)}
	pool.waiting(3)
	h.release()
	for _, done := range append(rest, running, waiting) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if _, err := pool.ReserveRender(hot); err != nil {
		t.Errorf("after all: %v", err)
	}
}

var _ media.Renderer = (*imaging.Pool)(nil)
