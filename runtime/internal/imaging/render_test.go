package imaging_test

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/imaging"
	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

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
	must(t, err)
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
	must(t, err)
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
	must(t, err)
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
			must(t, os.WriteFile(filepath.Join(folder, name), picture.Data, 0o600))
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
		must(t, os.WriteFile(path, picture.Data, 0o600))
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

var _ media.Renderer = (*imaging.Pool)(nil)
