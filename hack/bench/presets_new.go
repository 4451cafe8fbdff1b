package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"mediastack.dev/hack/servers"
	"mediastack.dev/runtime/settings"
)

// newWidth is that of the pictures that are made of a photo of 12 megapixels.
const newWidth = 1200

// imagor is the name of that server in tables.
const imagor = "imagor"

// newPictures compares pictures that are made for a request with the vips command line, which makes the same ones of the
// same files, one process for each core; and with an imagor server if there is one.
func (b *bench) newPictures(ctx context.Context) error {
	t, err := b.env.tenant(ctx, "new-pictures")
	if err != nil {
		return err
	}
	e, err := b.env.serve(ctx, service, t, noRowCache)
	if err != nil {
		return err
	}
	defer e.Stop()
	if err := e.declare(ctx, settings.Preset{Name: "new", Width: newWidth}); err != nil {
		return err
	}
	b.say("%s: making the photo", b.name)
	photo, err := b.photoFile(4000, 3000, 1)
	if err != nil {
		return err
	}
	photos, err := e.storePhotos(ctx, photo, "bench.jpg", b.Photos)
	if err != nil {
		return err
	}
	line := &commandLine{dir: b.env.dir, imageFile: imageFile{name: "presets.jpg", data: photo}}
	if err := line.prepare(); err != nil {
		return err
	}
	var other *endpoint
	if b.Imagor != "" {
		if other, err = b.serveImagor(ctx); err != nil {
			return err
		}
		defer other.Stop()
	}
	cores := runtime.NumCPU()
	shown := table{{"new picture of a 12 MP JPEG", "KB", "by", "per second", "CPU ms, all", "workers", "runtime without them", "PostgreSQL", "S3"}}
	compared := table{{"new picture", "compared", "ratio", "min", "max", "target", ""}}
	for _, format := range []struct {
		format  settings.Format
		options string // of the command line: those of the image workers
	}{
		{settings.FormatJPEG, "optimize_coding,strip"},
		{settings.FormatWebP, "strip"},
		{settings.FormatAVIF, "effort=2,bitdepth=8,strip"},
	} {
		variant := "new." + string(format.format)
		quality := format.format.Spec().DefaultQuality()
		run := func(ctx context.Context, _ int64) error {
			dir, back, err := line.lendDir()
			if err != nil {
				return err
			}
			defer back()
			_, err = tool(ctx, "vipsthumbnail", line.source(), "--size", fmt.Sprintf("%dx>", newWidth), "-o", fmt.Sprintf("%s/picture.%s[Q=%d,%s]", dir, format.format, quality, format.options))
			return err
		}
		if err := run(ctx, 0); err != nil {
			return err
		}
		want, err := line.lastPicture(string(format.format))
		if err != nil {
			return err
		}
		picture, err := e.picture(ctx, photos[0].MediaID, variant)
		if err == nil {
			err = b.samePicture(ctx, picture, want)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", format.format, err)
		}
		sides := []side{
			{name: "REST", clients: 2 * cores, call: func(ctx context.Context, n int64) error {
				_, err := e.picture(ctx, photos[n%int64(len(photos))].MediaID, variant)
				return err
			}, after: b.forgetPictures},
			{name: vips, clients: cores, call: run},
		}
		if other != nil {
			address := fmt.Sprintf("/unsafe/fit-in/%dx%d/filters:format(%s):quality(%d)/", newWidth, 10*newWidth, format.format, quality)
			var made atomic.Int64
			ask := func(ctx context.Context) ([]byte, error) {
				// It makes one picture for all requests for it at the same time, so that each one needs a file of its own.
				name := fmt.Sprintf("%s-%d.jpg", format.format, made.Add(1))
				if err := os.Link(line.source(), filepath.Join(b.env.dir, name)); err != nil {
					return nil, err
				}
				return other.get(ctx, address+name)
			}
			its, err := ask(ctx)
			if err == nil {
				err = b.samePicture(ctx, its, want)
			}
			if err != nil {
				return fmt.Errorf("%s of imagor: %w", format.format, err)
			}
			sides = append(sides, side{name: imagor, clients: 2 * cores, call: func(ctx context.Context, _ int64) error {
				_, err := ask(ctx)
				return err
			}})
		}
		if err := b.forgetPictures(ctx); err != nil {
			return err
		}
		rounds, err := b.measureRounds(ctx, variant, load{rounds: b.Rounds, calls: int64(b.Photos)}, sides...)
		if err != nil {
			return err
		}
		costs := [][]float64{b.costs(rounds[0], service, postgres, store), b.costs(rounds[1], vips)}
		if other != nil {
			costs = append(costs, b.costs(rounds[2], imagor))
		}
		for i, s := range sides {
			cells := []string{string(format.format), "", s.name, number(median(rates(rounds[i]))), number(median(costs[i]))}
			if i == 0 {
				cells[1] = number(float64(len(picture)) / 1000)
				own := figures(rounds[0], func(r round) float64 { return r.perCall(service) - r.perCall(workers) })
				cells = append(cells, number(median(b.costs(rounds[0], workers))), number(median(own)), number(median(b.costs(rounds[0], postgres))), number(median(b.costs(rounds[0], store))))
			}
			shown.row(cells...)
		}
		for i := range sides[1:] {
			against := sides[i+1].name
			for _, one := range []struct {
				figure string
				target *target
				values []float64
			}{
				{"pictures/s, ratio to " + against, minimum(1), ratios(rates(rounds[0]), rates(rounds[i+1]))},
				{"CPU of all, ratio to " + against, nil, ratios(costs[0], costs[i+1])},
				{"CPU of the workers, ratio to " + against, nil, ratios(b.costs(rounds[0], workers), costs[i+1])},
			} {
				if against == imagor {
					one.target = nil
				}
				found := b.add(result{Benchmark: b.name, Case: "new picture, " + string(format.format), Figure: one.figure, Target: one.target}, one.values...)
				compared.row(append([]string{string(format.format), one.figure}, found.cells()...)...)
			}
		}
	}
	shown.print(b.out)
	b.note("")
	compared.print(b.out)
	b.note("%d pixels wide; the service also reads the photo from S3, stores the picture there and a row in PostgreSQL, and sends the picture; the command line (VIPS_CONCURRENCY=1) reads and writes a file; "+
		"imagor reads a file, keeps nothing and sends the picture; qualities and efforts are those of the service", newWidth)
	return t.removeObjects("media")
}

// serveImagor starts an imagor server that reads the files of the data directory.
func (b *bench) serveImagor(ctx context.Context) (*endpoint, error) {
	port, err := servers.FreePort()
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	cores := fmt.Sprint(runtime.NumCPU())
	process, err := b.env.group.Start(ctx, servers.Spec{Name: imagor, Path: b.Imagor, LogFile: filepath.Join(b.env.dir, "imagor.log"), Ready: servers.Answers(address + "/healthcheck"),
		// The speed of AVIF is 9 less the effort of the image workers.
		Args: []string{"-imagor-unsafe", "-bind", fmt.Sprintf("127.0.0.1:%d", port), "-file-loader-base-dir", b.env.dir, "-imagor-process-concurrency", cores, "-imagor-process-queue-size", "64", "-vips-concurrency", "1", "-vips-avif-speed", "7", "-vips-strip-metadata",
			"-vips-max-cache-files", "0", "-vips-max-cache-mem", "0", "-vips-max-cache-size", "0"}})
	if err != nil {
		return nil, err
	}
	return b.env.endpoint(imagor, process, address, "")
}

// lastPicture returns the picture that the command line made last.
func (c *commandLine) lastPicture(format string) ([]byte, error) {
	dir, back, err := c.lendDir()
	if err != nil {
		return nil, err
	}
	defer back()
	return os.ReadFile(filepath.Join(dir, "picture."+format))
}

// samePicture checks that a picture has the size of another one, and about as many bytes.
func (b *bench) samePicture(ctx context.Context, picture, other []byte) error {
	var sizes [2]imageSize
	for n, data := range [][]byte{picture, other} {
		path := filepath.Join(b.env.dir, "compared")
		err := os.WriteFile(path, data, 0o644)
		if err == nil {
			sizes[n], err = describeImage(ctx, path)
		}
		if err != nil {
			return err
		}
	}
	got, want := sizes[0], sizes[1]
	if got.width != want.width || got.height != want.height || float64(got.bytes) < 0.8*float64(want.bytes) || float64(got.bytes) > 1.25*float64(want.bytes) {
		return fmt.Errorf("the sides do different work: one picture is %+v, that of the command line %+v", got, want)
	}
	return nil
}
