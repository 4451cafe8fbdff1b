package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The names of the runtimes of derivatives.
const (
	imagesOff = "images off"
	atUpload  = "AtUpload"
	later     = "Later"
)

// derivatives compares the upload of a photo whose derivatives are made later with that of the same bytes while images are off, and a photo
// whose thumbnail is read at once with one whose derivatives are made with the upload. One client sends one photo after the other. What is made
// later of the photos before it runs beside it, and its processor time is part of that of the service.
func derivatives(ctx context.Context, b *bench) error {
	files, err := imageFiles(b.Megapixels)
	if err != nil {
		return err
	}
	photo := newForm(files[0].name, files[0].data)
	off, err := b.photosOf(ctx, imagesOff, nil, photo)
	if err != nil {
		return err
	}
	with, err := b.photosOf(ctx, atUpload, nil, photo)
	if err != nil {
		return err
	}
	after, err := b.photosOf(ctx, later, with.endpoint, photo) // another runtime would have workers of its own
	if err != nil {
		return err
	}
	slow := table{{"p50, ms", "of", "than", "ratio", "min", "max", "target", ""}}
	for _, c := range []struct {
		what        string
		of, against side
		target      *target
	}{
		{"upload", after.side(after.upload), off.side(off.upload), maximum(1.3)},
		{"upload and thumbnail", after.side(after.look), with.side(with.look), maximum(1.2)},
	} {
		rounds, err := b.measureRounds(ctx, c.what, load{clients: 1, rounds: b.Rounds, calls: int64(b.Photos)}, c.of, c.against)
		if err != nil {
			return err
		}
		half := func(r round) float64 { return r.percentile(0.5).Seconds() * 1000 }
		of, against := figures(rounds[0], half), figures(rounds[1], half)
		found := b.add(result{Benchmark: b.name, Case: c.what + ", " + c.of.name + " against " + c.against.name, Figure: "ratio of p50", Target: c.target,
			Inputs: map[string]float64{c.of.name + "Milliseconds": median(of), c.against.name + "Milliseconds": median(against)}}, ratios(of, against)...)
		slow.row(append([]string{c.what, c.of.name + " " + number(median(of)), c.against.name + " " + number(median(against))}, found.cells()...)...)
	}
	slow.print(b.out)
	b.note("one client; %s of %s MB, %d in a round; what is made later of the photos before runs beside the next one", files[0].what, number(float64(len(files[0].data))/1e6), b.Photos)
	return nil
}

// photoSide is an account to which photos are sent.
type photoSide struct {
	name   string
	tenant tenant
	*endpoint
	photo form
}

// photosOf makes an account for a side, at a runtime; nil = one of its own.
func (b *bench) photosOf(ctx context.Context, name string, at *endpoint, photo form) (photoSide, error) {
	t, err := b.env.tenant(ctx, "derivatives-"+strings.ToLower(strings.ReplaceAll(name, " ", "-")))
	if err != nil {
		return photoSide{}, err
	}
	if at == nil {
		at, err = b.env.serve(ctx, name, t, fmt.Sprintf("SERVICE_IMAGE_ENABLED=%t", name != imagesOff))
		if err != nil {
			return photoSide{}, err
		}
	}
	own := *at
	own.key = t.APIKey
	if err := own.switchImagesOn(ctx); err != nil {
		return photoSide{}, err
	}
	if name == later {
		_, err = own.do(ctx, http.MethodPost, "/settings/media/create", strings.NewReader(`{"derivatives": "Later"}`), "application/json", http.StatusOK)
	}
	return photoSide{name: name, tenant: t, endpoint: &own, photo: photo}, err
}

func (p photoSide) side(do func(context.Context) error) side {
	return side{name: p.name, call: func(ctx context.Context, _ int64) error { return do(ctx) }, after: p.settle}
}

// upload uploads the photo. Only with derivatives: AtUpload is its file a conversion.
func (p photoSide) upload(ctx context.Context) error {
	_, err := p.created(ctx)
	return err
}

func (p photoSide) created(ctx context.Context) (document, error) {
	draft, err := p.create(ctx, p.photo)
	if err == nil && ((draft.MimeType == "image/webp") != (p.name == atUpload) || (draft.Thumbnail == "") != (p.name == imagesOff)) {
		err = fmt.Errorf("the draft is %+v", draft)
	}
	return draft, err
}

// look uploads the photo, and reads its thumbnail.
func (p photoSide) look(ctx context.Context) error {
	draft, err := p.created(ctx)
	if err != nil {
		return err
	}
	thumbnail, err := p.do(ctx, http.MethodGet, strings.TrimPrefix(draft.Thumbnail, p.baseURL), nil, "", http.StatusOK)
	if err == nil && len(thumbnail) == 0 {
		err = errors.New("the thumbnail is empty")
	}
	return err
}

// settle waits until all that is made later was made, and removes what the round has stored.
func (p photoSide) settle(ctx context.Context) error {
	for p.name == later {
		made, err := filepath.Glob(filepath.Join(p.tenant.bucketDir, "media", "*", "webp*"))
		if err != nil {
			return err
		}
		stored, err := os.ReadDir(filepath.Join(p.tenant.bucketDir, "media"))
		if err != nil {
			return err
		}
		if len(made) == len(stored) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return p.tenant.removeObjects("media")
}
