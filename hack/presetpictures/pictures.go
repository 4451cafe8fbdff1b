package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"mediastack.dev/hack/exchange"
)

// picture is a picture that the page shows: what a preset makes of a photo.
type picture struct {
	photo, variant string
	// format is the format that the client accepts, or that the address names if the preset is `photo`.
	format string
}

// named are the formats that an address names by a suffix.
const named = "photo"

// file returns the name of the picture's file.
func (p picture) file() string {
	photo, _, _ := strings.Cut(p.photo, ".")
	return photo + "-" + strings.ReplaceAll(p.variant, "@", "-") + "." + strings.Replace(p.format, "jpeg", "jpg", 1)
}

// address returns the variant with its format.
func (p picture) address() string {
	if strings.HasPrefix(p.variant, named) {
		return p.variant + "." + p.format
	}
	return p.variant
}

// file is a picture as the product sent it.
type file struct {
	data          []byte
	width, height int // as the document of the item has them
}

// item is the document of an item.
type item struct {
	MediaID string `json:"mediaId"`
	Presets map[string]struct {
		Densities []density
	} `json:"presets"`
}

// density is a picture of a preset in the document of an item.
type density struct {
	Width, Height int
	URL           string
}

// pictures uploads the photos and fetches every picture of the page.
func (s *stack) pictures(ctx context.Context) (map[string]file, error) {
	drawn, err := photos()
	if err != nil {
		return nil, err
	}
	items := map[string]item{}
	for _, one := range drawn {
		if items[one.name], err = s.upload(ctx, one); err != nil {
			return nil, fmt.Errorf("upload %s: %w", one.name, err)
		}
	}
	files := map[string]file{}
	for _, p := range shown() {
		if files[p.file()], err = s.fetch(ctx, items[p.photo], p); err != nil {
			return nil, fmt.Errorf("%s of %s: %w", p.variant, p.photo, err)
		}
	}
	return files, nil
}

// upload makes a public item with a focus point, and returns its document with the presets.
func (s *stack) upload(ctx context.Context, one photo) (item, error) {
	form, contentType := exchange.Form(one.name, one.data, "access", "public")
	var made item
	if err := s.call(ctx, http.MethodPost, "/media/create", contentType, bytes.NewReader(form), &made); err != nil {
		return item{}, err
	}
	if err := s.call(ctx, http.MethodPost, "/media/seal/"+made.MediaID, "", nil, &made); err != nil {
		return item{}, err
	}
	patch := fmt.Sprintf(`{"focus": {"x": %g, "y": %g}}`, one.focusX, one.focusY)
	if err := s.call(ctx, http.MethodPatch, "/media/"+made.MediaID, "application/merge-patch+json", strings.NewReader(patch), &made); err != nil {
		return item{}, err
	}
	return made, s.call(ctx, http.MethodGet, "/media/get/"+made.MediaID+"?fields=mediaId,presets", "", nil, &made)
}

// call sends a request with the API key and reads the document of the answer.
func (s *stack) call(ctx context.Context, method, path, contentType string, body io.Reader, into any) error {
	got, err := exchange.Send(ctx, http.DefaultClient, method, s.BaseURL+path, body, "X-Service-Apikey", s.apiKey, "Content-Type", contentType)
	if err != nil {
		return err
	}
	if got.Status/100 != 2 {
		return fmt.Errorf("%s %s: %d: %s", method, path, got.Status, got.Body)
	}
	return json.Unmarshal(got.Body, into)
}

// fetch gets a picture as a browser does, which accepts its format.
func (s *stack) fetch(ctx context.Context, of item, p picture) (file, error) {
	preset, _, _ := strings.Cut(p.variant, "@")
	densities := of.Presets[preset].Densities
	at := slices.IndexFunc(densities, func(one density) bool { return strings.Contains(one.URL, "/"+p.variant+"/") })
	if at < 0 {
		return file{}, fmt.Errorf("the document of the item does not have it")
	}
	got, err := exchange.Expect(ctx, http.DefaultClient, http.StatusOK, http.MethodGet, strings.Replace(densities[at].URL, "/"+p.variant+"/", "/"+p.address()+"/", 1), nil, "Accept", "image/"+p.format+",*/*;q=0.1")
	if contentType := got.Header.Get("Content-Type"); err == nil && contentType != "image/"+p.format {
		err = fmt.Errorf("it is %s, not image/%s", contentType, p.format)
	}
	return file{data: got.Body, width: densities[at].Width, height: densities[at].Height}, err
}
