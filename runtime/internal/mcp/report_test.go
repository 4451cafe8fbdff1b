package mcp_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/imaging/imagetest"
)

// withUploads writes a spec that offers the ten tools, and the results of the toolset uploads.
func withUploads(s *account.Spec) {
	s.ToolPolicy.Toolsets = []string{account.ToolsetCore, account.ToolsetUploads}
}

type uploadReport struct {
	MediaID      string `json:"mediaId"`
	Size         int64  `json:"size"`
	DetectedType string `json:"detectedType"`
	SHA256       string `json:"sha256"`
	Width        int    `json:"width"`
	Height       int    `json:"height"`
	Warning      string `json:"warning"`
}

// A model once sent the first part of a picture as base64, and was told of nothing: the picture was stored, sealed and broken.
func TestUploadMedia_ReportsWhatItStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", withUploads)
	rt := w.replica(t, func(o *options) { o.Images = true })
	png, jpeg := imagetest.PNG(imagetest.Picture(600, 400)), imagetest.JPEG(imagetest.Picture(600, 400))
	text := []byte("The quick brown fox")
	for _, tt := range []struct {
		title, name, mimeType string
		bytes                 []byte
		detected              string
		unreadable            bool
	}{
		{"a whole picture", "a.png", "image/png", png, "image/png", false},
		{"a whole picture of another type than its name", "a.png", "image/png", jpeg, "image/jpeg", false},
		{"half a picture", "a.png", "image/png", png[:len(png)/2], "image/png", true},
		{"half a picture that is named as no image", "a.bin", "application/octet-stream", jpeg[:len(jpeg)/2], "image/jpeg", true},
		{"the first bytes of a picture", "a.jpg", "image/jpeg", jpeg[:40], "image/jpeg", true},
		{"text that is declared as a picture", "notes", "image/png", text, "text/plain", true},
		{"text that is named as a picture", "dir/A.JPEG", "application/octet-stream", text, "text/plain", true},
		{"random bytes that are named as a picture", "a.heic", "application/octet-stream", noise(500), "application/octet-stream", true},
		{"text", "notes.txt", "text/plain", text, "text/plain", false},
		{"CSV", "notes.csv", "text/csv", text, "text/plain", false},
		{"random bytes", "a.bin", "application/x-own", noise(500), "application/octet-stream", false},
		{"a picture that this service does not read", "a.svg", "image/svg+xml", []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), "image/svg+xml", false},
	} {
		got := succeeded[uploadReport](t, rt.call(t, one.Key, "upload_media",
			object{"fileBase64": base64.StdEncoding.EncodeToString(tt.bytes), "fileName": tt.name, "mimeType": tt.mimeType}))
		if got.Size != int64(len(tt.bytes)) || got.DetectedType != tt.detected || strings.HasPrefix(got.Warning, "not readable as an image") != tt.unreadable {
			t.Errorf("%s: %d bytes are reported as %+v", tt.title, len(tt.bytes), got)
		}
		if item := succeeded[api.MediaItem](t, rt.call(t, one.Key, "get_media", object{"mediaId": got.MediaID})); !item.Temp {
			t.Errorf("%s: the item is %+v", tt.title, item)
		}
	}
	// A file that is stored part by part, and of which the buffer does not have the first bytes any more.
	large := bytes.Repeat([]byte("text "), (10<<20)/5)
	if got := succeeded[uploadReport](t, rt.call(t, one.Key, "upload_media", object{"fileBase64": base64.StdEncoding.EncodeToString(large), "fileName": "a.png", "mimeType": "text/plain"})); got.Size != int64(len(large)) ||
		got.DetectedType != "text/plain" || got.Warning == "" {
		t.Errorf("a large file is reported as %+v", got)
	}
	// A conversion has another size than the file.
	succeeded[any](t, rt.call(t, one.Key, "update_media_settings", object{"useWebP": true}))
	if got := succeeded[uploadReport](t, rt.call(t, one.Key, "upload_media", object{"fileBase64": base64.StdEncoding.EncodeToString(png), "fileName": "a.png", "mimeType": "image/png"})); got.Size != int64(len(png)) ||
		got.DetectedType != "image/png" || got.Warning != "" {
		t.Errorf("a converted picture is reported as %+v", got)
	}
}

// The result and the schema have more with the toolset, which has no tool of its own. Without it the result is that of the specification.
func TestUploads_AreResultsOfTheirToolset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, plain := w.tenant(t, "one"), w.tenant(t, "plain")
	rt := w.replica(t)
	names := rt.names(t, plain.Key)
	listed := func(key string) string {
		for _, tool := range rt.tools(t, key) {
			if tool.Name == "upload_media" {
				text, err := json.Marshal(tool)
				must(t, err)
				return string(text)
			}
		}
		return ""
	}
	w.Change(t, one, withUploads)
	wait.Until(t, "the result has more members", func() bool { return strings.Contains(listed(one.Key), "detectedType") })
	if !slices.Equal(rt.names(t, one.Key), names) || strings.Contains(listed(plain.Key), "detectedType") {
		t.Error("the toolset changes other tools, or other accounts")
	}
	arguments := object{"fileBase64": "AAAA", "fileName": "a.png", "mimeType": "image/png"}
	if got := rt.call(t, plain.Key, "upload_media", arguments); strings.Count(string(got.StructuredContent), `":`) != 1 {
		t.Errorf("without the toolset the result is %s", got.StructuredContent)
	}
	if text := listed(plain.Key); !strings.Contains(text, "compare `size` of get_media") || strings.Contains(listed(one.Key), "of get_media") {
		t.Errorf("the descriptions are %s and %s", text, listed(one.Key))
	}
}
