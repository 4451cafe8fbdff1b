package imaging_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/internal/imaging"
	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// located returns a photo of a phone that says when, where and with what it was made.
func located(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "photo.jpg")
	must(t, os.WriteFile(path, imagetest.JPEG(imagetest.Picture(60, 40)), 0o600))
	tool(t, "exiftool", "-q", "-overwrite_original", "-n", "-EXIF:Make=Apple", "-EXIF:Model=iPhone 15", "-EXIF:LensModel=back camera", "-EXIF:DateTimeOriginal=2024:05:01 12:30:45", "-EXIF:OffsetTimeOriginal=+02:00",
		"-GPSLatitude=48.8584", "-GPSLatitudeRef=N", "-GPSLongitude=2.2945", "-GPSLongitudeRef=E", "-XMP-exif:GPSLatitude=48.8584", "-XMP-exif:GPSLongitude=2.2945", "-XMP-dc:Title=Tower", "-XMP:Rating=4", path)
	file, err := os.ReadFile(path)
	must(t, err)
	return file
}

// says compares what was read with what the photo says.
func says(t *testing.T, name string, got capture.Capture, location bool) {
	t.Helper()
	want := capture.Capture{At: "2024-05-01T12:30:45+02:00", Camera: "Apple iPhone 15", Lens: "back camera", Title: "Tower", Rating: 4}
	if got.WithoutLocation() != want || (got.Location != nil) != location || location && *got.Location != (capture.Location{Latitude: 48.8584, Longitude: 2.2945}) {
		t.Errorf("%s: got %+v at %v", name, got, got.Location)
	}
}

// TestCapture_IsReadAndNoPictureHasIt reads what a photo says, with and without its location. exiftool finds nothing of it in its pictures.
func TestCapture_IsReadAndNoPictureHasIt(t *testing.T) {
	t.Parallel()
	pool, file, folder := open(t, config(realWorker(t))), located(t), t.TempDir()
	for _, keep := range []bool{true, false} {
		job := request("image/jpeg", file)
		job.KeepLocation = keep
		facts, made, err := pool.Derive(t.Context(), job)
		if err != nil || len(made) != 2 || !facts.CaptureRead {
			t.Fatalf("%d derivatives, %v", len(made), err)
		}
		says(t, "with the derivatives", facts.Capture, keep)
		for _, derivative := range made {
			must(t, os.WriteFile(filepath.Join(folder, string(derivative.Variant)+".webp"), derivative.Data, 0o600))
		}
		c, err := pool.ReadCapture(t.Context(), media.CaptureJob{ItemID: uuid.New(), AccountID: uuid.New(), Bytes: int64(len(file)), Source: job.Source, KeepLocation: keep})
		must(t, err)
		says(t, "alone", c, keep)
	}
	for _, format := range []settings.Format{settings.FormatWebP, settings.FormatAVIF, settings.FormatJPEG, settings.FormatPNG} {
		picture := pool.rendered("image/jpeg", file, recipe(20, 20, settings.Cover, format))
		must(t, os.WriteFile(filepath.Join(folder, "preset."+string(format)), picture.Data, 0o600))
	}
	withoutMetadata(t, folder)
}

// TestCapture_OfFilesThatAreNoImages reads a movie, a text, a file that is cut off and nothing.
func TestCapture_OfFilesThatAreNoImages(t *testing.T) {
	t.Parallel()
	pool := open(t, config(realWorker(t)))
	movie, err := os.ReadFile(filepath.Join("capturefile", "testdata", "seeds", "android-mp4"))
	must(t, err)
	for name, c := range map[string]struct {
		file []byte
		want capture.Capture
	}{
		"a movie":          {movie, capture.Capture{At: "2024-02-02T02:02:02Z", Location: &capture.Location{Latitude: -1.2921, Longitude: 36.8219}}},
		"a text":           {[]byte("a text"), capture.Capture{}},
		"a broken photo":   {located(t)[:200], capture.Capture{}},
		"a byte":           {[]byte{0xff}, capture.Capture{}},
		"a photo cut off":  {located(t)[:3000], capture.Capture{At: "2024-05-01T12:30:45+02:00", Camera: "Apple iPhone 15", Lens: "back camera", Location: &capture.Location{Latitude: 48.8584, Longitude: 2.2945}}},
		"many zeros":       {make([]byte, 1<<20), capture.Capture{}},
		"a header of ID3":  {[]byte("ID3\x04\x00\x00\x7f\x7f\x7f\x7f"), capture.Capture{}},
		"a cyclic picture": {[]byte("II*\x00\x08\x00\x00\x00\x01\x00\x69\x87\x04\x00\x01\x00\x00\x00\x08\x00\x00\x00\x08\x00\x00\x00"), capture.Capture{}},
	} {
		got, err := pool.ReadCapture(t.Context(), captureJob(c.file, true))
		must(t, err)
		if got.Location != nil && c.want.Location != nil && got.Location.Distance(*c.want.Location) < 20 {
			got.Location = c.want.Location
		}
		if name == "a photo cut off" {
			got.Title, got.Rating = "", 0 // as far as it goes
		}
		if got != c.want {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func captureJob(file []byte, keep bool) media.CaptureJob {
	return media.CaptureJob{ItemID: uuid.New(), AccountID: uuid.New(), Bytes: int64(len(file)), KeepLocation: keep,
		Source: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file)), nil }}
}

// TestReadCapture_WorkersThatFail has workers that die, and that answer something else.
func TestReadCapture_WorkersThatFail(t *testing.T) {
	t.Parallel()
	for role, why := range map[string]string{"crashes": "exit status 3", "sends-no-capture": "instead of Capture", "sends-a-capture-twice": "instead of Done",
		"sends-a-capture-of-another-job": "a capture of another job"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			pool := open(t, config(fakeWorker(t, role)))
			got, err := pool.ReadCapture(t.Context(), captureJob([]byte("file"), true))
			if !errors.Is(err, imaging.ErrWorker) || !errors.Is(err, media.ErrWorkerFailed) || !strings.Contains(err.Error(), why) || got.Known() {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// TestCapture_OfACompromisedWorkerIsCleaned has a worker that sends what may not be stored, and a location that was not asked for.
func TestCapture_OfACompromisedWorkerIsCleaned(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "sends-a-hostile-capture")))
	want := capture.Capture{Camera: "evil", Lens: strings.Repeat("x", 100)}
	got, err := pool.ReadCapture(t.Context(), captureJob([]byte("file"), false))
	must(t, err)
	if got != want {
		t.Errorf("got %+v", got)
	}
	facts, _, err := pool.Derive(t.Context(), smallJob())
	must(t, err)
	if facts.Capture != want || !facts.CaptureRead {
		t.Errorf("with the derivatives: %+v", facts)
	}
	if got, err := pool.ReadCapture(t.Context(), captureJob([]byte("file"), true)); err != nil || got.Location == nil {
		t.Errorf("the location that is kept: %+v, %v", got, err)
	}
}

// TestReadCapture_WithoutWorkers says nothing.
func TestReadCapture_WithoutWorkers(t *testing.T) {
	t.Parallel()
	pool := open(t, imaging.Config{})
	if got, err := pool.ReadCapture(t.Context(), captureJob([]byte("file"), true)); err != nil || got.Known() || pool.ReadsCaptures() {
		t.Errorf("got %+v, %v", got, err)
	}
}

// The texts of a PNG are read with its derivatives, though libvips does not get them.
func TestCapture_OfTheTextsOfAPNG(t *testing.T) {
	t.Parallel()
	pool := open(t, config(realWorker(t)))
	packet := `<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmp:Rating="4" xmp:CreateDate="2020-01-01T00:00:00Z"/></rdf:RDF></x:xmpmeta>`
	file := imagetest.WithChunks(imagetest.PNG(image.NewGray(image.Rect(0, 0, 64, 64))), imagetest.Chunk("tEXt", []byte("Title\x00Tower")), imagetest.Chunk("iTXt", []byte("XML:com.adobe.xmp\x00\x00\x00\x00\x00"+packet)))
	facts, made, err := pool.Derive(t.Context(), request("image/png", file))
	if err != nil || len(made) == 0 || !facts.CaptureRead {
		t.Fatalf("%d derivatives, %v", len(made), err)
	}
	if want := (capture.Capture{At: "2020-01-01T00:00:00Z", Title: "Tower", Rating: 4}); !reflect.DeepEqual(facts.Capture, want) {
		t.Errorf("read %+v, not %+v", facts.Capture, want)
	}
}
