package main

import (
	"bytes"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// maxFolder is the size of all pictures, in bytes.
const maxFolder = 600_000

var must = check.NoError

// committed returns the page, and the pictures of its folder with their sizes as vips reads them.
func committed(t *testing.T) (text string, files map[string]file) {
	t.Helper()
	root := testenv.RepoRoot(t)
	content, err := os.ReadFile(filepath.Join(root, page))
	must(t, err)
	paths, err := filepath.Glob(filepath.Join(root, folder, "*"))
	must(t, err)
	files = map[string]file{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		must(t, err)
		files[filepath.Base(path)] = file{data, field(t, path, "width"), field(t, path, "height")}
	}
	return string(content), files
}

// field returns a number of the header of a picture.
func field(t *testing.T, path, name string) int {
	t.Helper()
	printed := strings.Fields(testenv.Run(t, time.Minute, t.TempDir(), testenv.Program(t, "vipsheader"), "-f", name, path))
	n, err := strconv.Atoi(printed[len(printed)-1]) // warnings may stand before it
	must(t, err)
	return n
}

// The tables name every picture, with its size and bytes, and nothing else: filling them with what the files say changes nothing.
func TestPage_AgreesWithItsPictures(t *testing.T) {
	t.Parallel()
	text, files := committed(t)
	filled, err := fill(text, files)
	must(t, err)
	if filled != text {
		t.Errorf("%s does not agree with %s: run `make preset-pictures`", page, folder)
	}
	total := 0
	for name, file := range files {
		total += len(file.data)
		if !strings.Contains(text, "](../pictures/"+name+")<br>"+strconv.Itoa(file.width)+" x ") {
			t.Errorf("%s is not on the page", name)
		}
		if bytes.Contains(file.data, []byte("Exif\x00")) || bytes.Contains(file.data, []byte("ICC_PROFILE")) {
			t.Errorf("%s has metadata", name)
		}
	}
	if len(files) != len(shown()) || total > maxFolder {
		t.Errorf("%d pictures of %d bytes, want %d of at most %d", len(files), total, len(shown()), maxFolder)
	}
	for _, match := range regexp.MustCompile(`\(\.\./pictures/([^)]*)\)`).FindAllStringSubmatch(text, -1) {
		if _, ok := files[match[1]]; !ok {
			t.Errorf("the page shows %s, which does not exist", match[1])
		}
	}
}

// What is on the page is what the product makes. Another version of an encoder may make slightly other pixels.
func TestPage_ShowsWhatTheProductMakes(t *testing.T) {
	t.Parallel()
	const most = 4.0 // the mean difference of the channels, of 255
	made, err := makeFiles(t.Context())
	must(t, err)
	_, files := committed(t)
	for name, now := range made {
		before, ok := files[name]
		if !ok || before.width != now.width || before.height != now.height {
			t.Errorf("%s is %d x %d, on the page %d x %d: run `make preset-pictures`", name, now.width, now.height, before.width, before.height)
			continue
		}
		if got := difference(pixels(t, name, now.data), pixels(t, name, before.data)); got > most {
			t.Errorf("%s differs by %.1f from the page: run `make preset-pictures`", name, got)
		}
	}
	if len(made) != len(files) {
		t.Errorf("%d pictures are made, and %d on the page", len(made), len(files))
	}
}

// pixels decodes a picture with the vips command line.
func pixels(t *testing.T, name string, data []byte) *image.NRGBA {
	t.Helper()
	dir := t.TempDir()
	in, out := filepath.Join(dir, name), filepath.Join(dir, "decoded.png")
	must(t, os.WriteFile(in, data, 0o600))
	testenv.Run(t, time.Minute, dir, testenv.Program(t, "vips"), "copy", in, out)
	content, err := os.ReadFile(out)
	must(t, err)
	decoded, err := png.Decode(bytes.NewReader(content))
	must(t, err)
	plain := image.NewNRGBA(decoded.Bounds())
	for y := range plain.Rect.Dy() {
		for x := range plain.Rect.Dx() {
			plain.Set(x, y, decoded.At(x, y))
		}
	}
	return plain
}

// difference returns the mean difference of the channels; what is transparent has no color.
func difference(a, b *image.NRGBA) float64 {
	if a.Rect != b.Rect {
		return 255
	}
	sum := 0.0
	for i := 0; i < len(a.Pix); i += 4 {
		sum += math.Abs(float64(a.Pix[i+3]) - float64(b.Pix[i+3]))
		for c := range 3 {
			sum += math.Abs(float64(a.Pix[i+c])*float64(a.Pix[i+3])-float64(b.Pix[i+c])*float64(b.Pix[i+3])) / 255
		}
	}
	return sum / float64(len(a.Pix))
}
