package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
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
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	_ = parts.WriteField("access", "public") // a buffer takes everything
	part, _ := parts.CreateFormFile("file", one.name)
	_, _ = part.Write(one.data)
	_ = parts.Close()
	var made item
	if err := s.call(ctx, http.MethodPost, "/media/create", parts.FormDataContentType(), &form, &made); err != nil {
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
	request, err := http.NewRequestWithContext(ctx, method, s.BaseURL+path, body)
	if err != nil {
		return err
	}
	request.Header.Set("X-Service-Apikey", s.apiKey)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	text, _, err := send(request)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// fetch gets a picture as a browser does, which accepts its format.
func (s *stack) fetch(ctx context.Context, of item, p picture) (file, error) {
	preset, _, _ := strings.Cut(p.variant, "@")
	densities := of.Presets[preset].Densities
	at := slices.IndexFunc(densities, func(one density) bool { return strings.Contains(one.URL, "/"+p.variant+"/") })
	if at < 0 {
		return file{}, fmt.Errorf("the document of the item does not have it")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.Replace(densities[at].URL, "/"+p.variant+"/", "/"+p.address()+"/", 1), nil)
	if err != nil {
		return file{}, err
	}
	request.Header.Set("Accept", "image/"+p.format+",*/*;q=0.1")
	data, contentType, err := send(request)
	if err == nil && contentType != "image/"+p.format {
		err = fmt.Errorf("it is %s, not image/%s", contentType, p.format)
	}
	return file{data: data, width: densities[at].Width, height: densities[at].Height}, err
}

// send returns the body of an answer, and its type.
func send(request *http.Request) (body []byte, contentType string, err error) {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", request.Method, request.URL.Path, response.Status, body)
	}
	return body, response.Header.Get("Content-Type"), err
}
