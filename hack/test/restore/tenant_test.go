package restore

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"

	"mediastack.dev/hack/exchange"
)

// item is a media document.
type item struct {
	MediaID   string `json:"mediaId"`
	File      string `json:"file"`
	Thumbnail string `json:"thumbnail"`
	Temp      bool   `json:"temp"`

	key string // the API key that it was uploaded with
	sum [sha256.Size]byte
}

// call sends a request to the runtime, and returns the status and the body.
func (s *site) call(key, method, url, contentType string, body io.Reader) (int, []byte) {
	s.t.Helper()
	got, err := exchange.Send(s.t.Context(), http.DefaultClient, method, "http://"+s.runtime.Addr+strings.TrimPrefix(url, baseURL), body, "x-service-apikey", key, "Content-Type", contentType)
	must(s.t, err)
	return got.Status, got.Body
}

func (s *site) document(key, method, url string, want int) (found item) {
	s.t.Helper()
	status, body := s.call(key, method, url, "", nil)
	if status != want {
		s.t.Fatalf("%s %s: %d, want %d: %s", method, url, status, want, body)
	}
	must(s.t, json.Unmarshal(body, &found))
	return found
}

// upload uploads a file and, if sealed is set, seals it.
func (s *site) upload(key, name string, data []byte, sealed bool) item {
	s.t.Helper()
	form, contentType := exchange.Form(name, data)
	status, body := s.call(key, http.MethodPost, "/media/create", contentType, bytes.NewReader(form))
	if status != http.StatusCreated {
		s.t.Fatalf("upload: %d %s", status, body)
	}
	var created item
	must(s.t, json.Unmarshal(body, &created))
	if sealed {
		created = s.document(key, http.MethodPost, "/media/seal/"+created.MediaID, http.StatusOK)
	}
	created.key, created.sum = key, sha256.Sum256(data)
	return created
}

// signature returns an upload signature.
func (s *site) signature(key string) string {
	s.t.Helper()
	status, body := s.call(key, http.MethodPost, "/media/signature/create", "", nil)
	var created struct{ Signature string }
	if err := json.Unmarshal(body, &created); err != nil || created.Signature == "" {
		s.t.Fatalf("signature: %d %s", status, body)
	}
	return created.Signature
}

// uploadsWith returns the status of an upload with a signature.
func (s *site) uploadsWith(signature string) int {
	s.t.Helper()
	form, contentType := exchange.Form("signed.bin", random(100, 8))
	got, err := exchange.Send(s.t.Context(), http.DefaultClient, http.MethodPost, "http://"+s.runtime.Addr+"/media/create", bytes.NewReader(form), "Content-Type", contentType, "x-service-signature", signature)
	must(s.t, err)
	return got.Status
}

// served returns what is wrong with an item: "" if it is listed as sealed, and its file is what was
// uploaded. The key may be another one than that of the upload.
func (s *site) served(key string, i item) string {
	s.t.Helper()
	status, body := s.call(key, http.MethodGet, "/media/get/"+i.MediaID, "", nil)
	if status != http.StatusOK {
		return fmt.Sprintf("item %s: %d %s", i.MediaID, status, body)
	}
	var found item
	must(s.t, json.Unmarshal(body, &found))
	if found.Temp {
		return fmt.Sprintf("item %s is a draft", i.MediaID)
	}
	if i.Thumbnail != "" {
		if status, body := s.call("", http.MethodGet, found.Thumbnail, "", nil); status != http.StatusOK || len(body) == 0 {
			return fmt.Sprintf("thumbnail of item %s: %d", i.MediaID, status)
		}
	}
	return s.downloads(found.File, i)
}

// downloads returns what is wrong with the file at a URL: "" if it is what was uploaded.
func (s *site) downloads(url string, i item) string {
	s.t.Helper()
	status, body := s.call("", http.MethodGet, url, "", nil)
	if status != http.StatusOK || sha256.Sum256(body) != i.sum {
		return fmt.Sprintf("file of item %s: %d, %d bytes, not with the SHA-256 of the upload", i.MediaID, status, len(body))
	}
	return ""
}

// random returns bytes that depend on the seed only.
func random(size int, seed byte) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
	return data
}

// picture returns a PNG.
func picture() []byte {
	var data bytes.Buffer
	_ = png.Encode(&data, image.NewGray(image.Rect(0, 0, 300, 200)))
	return data.Bytes()
}
