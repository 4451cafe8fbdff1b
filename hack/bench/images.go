package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// webpQuality is that of both sides; thumbnails are WebP of this quality too.
const webpQuality = 80

// images compares a thumbnail and a WebP conversion through REST with the vips command
// line doing the same to the same files, one process for each core.
func images(ctx context.Context, b *bench) error {
	for _, program := range []string{"vips", "vipsthumbnail", "vipsheader"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: run `make packages`", err)
		}
	}
	t, e, err := b.serveTenant(ctx, "images")
	if err != nil {
		return err
	}
	if err := e.switchImagesOn(ctx); err != nil {
		return err
	}
	b.say("%s: making the photos", b.name)
	files, err := imageFiles(b.Megapixels)
	if err != nil {
		return err
	}
	cores := runtime.NumCPU()
	c := b.compare("image", "ratio of images/s", []string{"file", "MB", "REST/s", "vips/s"}, client, service, workers, postgres, store, vips)
	for _, file := range files {
		line := &commandLine{dir: b.env.dir, imageFile: file}
		if err := line.prepare(); err != nil {
			return err
		}
		if err := b.sameWork(ctx, t, e, line); err != nil {
			return fmt.Errorf("%s: %w", file.name, err)
		}
		sides := []side{imageSide(t, e, file), {name: "vips", clients: cores, call: line.run}}
		if err := c.measure(ctx, file.what, load{rounds: b.Rounds, calls: int64(b.Photos)}, sides,
			pair{against: 1, target: minimum(1), name: file.what, cells: []string{file.what, number(float64(len(file.data)) / 1e6)}}); err != nil {
			return err
		}
	}
	c.print()
	b.note("%d uploads in flight against %d vips processes at a time (VIPS_CONCURRENCY=1, vipsthumbnail then webpsave, quality %d on both sides); "+
		"imaging is part of runtime; the REST side also stores three objects and a row", 2*cores, cores, webpQuality)
	return nil
}

// switchImagesOn sets the tenant's settings so that images get both derivatives.
func (e *endpoint) switchImagesOn(ctx context.Context) error {
	settings := fmt.Sprintf(`{"useWebP": true, "webpOutputQuality": %d, "thumbnailWidth": 320, "thumbnailHeight": 320}`, webpQuality)
	_, err := e.do(ctx, http.MethodPost, "/settings/media/create", strings.NewReader(settings), "application/json", http.StatusOK)
	return err
}

// imageSide uploads an image through REST. Twice as many uploads as cores are in flight, so that a
// worker has its next image while another one is sent and stored.
func imageSide(t tenant, e *endpoint, file imageFile) side {
	f := newForm(file.name, file.data)
	return side{name: "REST", clients: 2 * runtime.NumCPU(), call: func(ctx context.Context, _ int64) error {
		draft, err := e.create(ctx, f)
		if err == nil && (draft.MimeType != "image/webp" || draft.Thumbnail == "") {
			err = fmt.Errorf("the draft has no derivatives: %+v", draft)
		}
		return err
	}, after: func(context.Context) error { return t.removeObjects("media") }}
}

// commandLine is the vips command line for one file.
type commandLine struct {
	imageFile
	dir string
}

func (c *commandLine) source() string { return filepath.Join(c.dir, c.name) }

func (c *commandLine) prepare() error { return os.WriteFile(c.source(), c.data, 0o644) }

// run makes both derivatives once.
func (c *commandLine) run(ctx context.Context, _ int64) error {
	dir, err := os.MkdirTemp(c.dir, c.name)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return c.makeIn(ctx, dir)
}

func (c *commandLine) makeIn(ctx context.Context, dir string) error {
	if _, err := tool(ctx, "vipsthumbnail", c.source(), "--size", "320x320>", "-o", fmt.Sprintf("%s/thumbnail.webp[Q=%d,strip]", dir, webpQuality)); err != nil {
		return err
	}
	_, err := tool(ctx, "vips", "webpsave", c.source()+"[access=sequential]", filepath.Join(dir, "full.webp"), "--Q", fmt.Sprint(webpQuality), "--strip")
	return err
}

func tool(ctx context.Context, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(os.Environ(), "VIPS_CONCURRENCY=1")
	var warnings strings.Builder
	command.Stderr = &warnings
	output, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %.300s%.300s", name, err, warnings.String(), output)
	}
	return strings.TrimSpace(string(output)), err
}

// sameWork checks that both sides make images of the same size, and about as many bytes.
func (b *bench) sameWork(ctx context.Context, t tenant, e *endpoint, line *commandLine) error {
	dir, err := os.MkdirTemp(line.dir, line.name)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := line.makeIn(ctx, dir); err != nil {
		return err
	}
	draft, err := e.create(ctx, newForm(line.name, line.data))
	if err != nil {
		return err
	}
	for _, derivative := range []struct{ variant, file string }{{"thumbnail", "thumbnail.webp"}, {"webp", "full.webp"}} {
		object := filepath.Join(t.bucketDir, t.keyOf("media/"+draft.MediaID+"/"+derivative.variant))
		got, err := describeImage(ctx, object)
		if err != nil {
			return errors.Join(fmt.Errorf("the service made no %s: %+v", derivative.variant, draft), err)
		}
		want, err := describeImage(ctx, filepath.Join(dir, derivative.file))
		if err != nil {
			return err
		}
		if got.width != want.width || got.height != want.height || float64(got.bytes) < 0.8*float64(want.bytes) || float64(got.bytes) > 1.25*float64(want.bytes) {
			return fmt.Errorf("the sides do different work: the service's %s is %+v, that of the command line %+v", derivative.variant, got, want)
		}
	}
	return nil
}

type imageSize struct {
	width, height string
	bytes         int64
}

func describeImage(ctx context.Context, path string) (imageSize, error) {
	info, err := os.Stat(path)
	if err != nil {
		return imageSize{}, err
	}
	size := imageSize{bytes: info.Size()}
	if size.width, err = tool(ctx, "vipsheader", "-f", "width", path); err != nil {
		return imageSize{}, err
	}
	size.height, err = tool(ctx, "vipsheader", "-f", "height", path)
	return size, err
}
