package mcp_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/imaging/imagetest"
)

// uploadWith uploads a file in an account with a toolset that reports what was stored.
func (rt *replica) uploadWith(t *testing.T, key string, data []byte, arguments object) uploadReport {
	t.Helper()
	arguments["fileBase64"] = base64.StdEncoding.EncodeToString(data)
	return succeeded[uploadReport](t, rt.call(t, key, "upload_media", arguments))
}

// The usual failure of a model is base64 that ends early. It is still base64, so only what the model knows of the file can show it.
func TestUploadMedia_RejectsAnotherFileThanTheExpectedOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", func(s *account.Spec) { s.ToolPolicy.Toolsets = []string{account.ToolsetCore, account.ToolsetSlim} })
	plain := w.tenant(t, "plain")
	rt := w.replica(t, func(o *options) { o.Images = true })
	picture := imagetest.PNG(imagetest.Picture(60, 40))
	large := noise(10 << 20) // it is recorded, and sent part by part, while it arrives
	hash := func(data []byte) string {
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:])
	}
	const nothing = "nothing was stored"
	for name, tt := range map[string]struct {
		sent []byte
		with object
		says string
	}{
		"half of it":                         {picture[:len(picture)/2], object{"size": len(picture)}, "the file is incomplete: "},
		"half of it, by its hash":            {picture[:len(picture)/2], object{"sha256": hash(picture)}, hash(picture[:len(picture)/2])},
		"all but its last byte":              {picture[:len(picture)-1], object{"size": len(picture), "sha256": hash(picture)}, "the file is incomplete: "},
		"more than it":                       {append(slices.Clone(picture), 0), object{"size": len(picture)}, "the file is another one: "},
		"a byte of it is another one":        {append(slices.Clone(picture[:len(picture)-1]), 7), object{"size": len(picture), "sha256": hash(picture)}, "the SHA-256 of the "},
		"a large file, but for its last MiB": {large[:9<<20], object{"size": len(large)}, "the file is incomplete: "},
		"a large file":                       {large, object{"sha256": hash(picture)}, "the SHA-256 of the 10485760 bytes"},
		"a size of nothing":                  {picture, object{"size": 0}, "size must be 1 or more"},
		"a size that is a text":              {picture, object{"size": "12"}, "size must be an integer"},
		"a hash that is too short":           {picture, object{"sha256": "abc"}, "sha256 must be 64 hexadecimal digits"},
		"a hash of another kind":             {picture, object{"sha256": strings.Repeat("x", 64)}, "sha256 must be 64 hexadecimal digits"},
		"a hash of MD5":                      {picture, object{"sha256": hash(picture)[:32]}, "sha256 must be 64 hexadecimal digits"},
	} {
		arguments := object{"fileBase64": base64.StdEncoding.EncodeToString(tt.sent), "fileName": "a.png", "mimeType": "image/png"}
		for field, value := range tt.with {
			arguments[field] = value
		}
		says := failed(t, rt.call(t, one.Key, "upload_media", arguments))
		if !strings.Contains(says, tt.says) || strings.Contains(tt.says, "file") && !strings.Contains(says, nothing) {
			t.Errorf("%s: %q", name, says)
		}
		if n := w.leftovers(t); n != 0 {
			t.Fatalf("%s: %d is left", name, n)
		}
		if says := failed(t, rt.call(t, plain.Key, "upload_media", arguments)); !strings.HasPrefix(says, "unknown argument") {
			t.Errorf("%s, without the toolset: %q", name, says)
		}
	}
	// Base64 without padding is accepted with a size that shows that it is whole.
	bare := object{"fileBase64": "AAAAAA", "fileName": "a.bin", "mimeType": "application/x-own"}
	if says := failed(t, rt.call(t, one.Key, "upload_media", bare)); !strings.Contains(says, "ends without its padding") || !strings.Contains(says, nothing) || w.leftovers(t) != 0 {
		t.Errorf("base64 without padding: %q", says)
	}
	bare["size"] = 4
	succeeded[uploadReport](t, rt.call(t, one.Key, "upload_media", bare))
	got := rt.uploadWith(t, one.Key, picture, object{"fileName": "a.png", "mimeType": "image/png", "size": len(picture), "sha256": strings.ToUpper(hash(picture))})
	if got.SHA256 != hash(picture) || got.Size != int64(len(picture)) || got.DetectedType != "image/png" || got.Width != 60 || got.Height != 40 || got.Warning != "" {
		t.Errorf("the report is %+v", got)
	}
	if got := rt.uploadWith(t, one.Key, []byte("text"), object{"fileName": "a.txt", "mimeType": "text/plain", "size": 4}); got.Width != 0 || got.Height != 0 || got.SHA256 != hash([]byte("text")) {
		t.Errorf("the report of a text is %+v", got)
	}
	if got := rt.uploadWith(t, one.Key, large, object{"fileName": "a.bin", "mimeType": "application/x-own", "size": len(large), "sha256": hash(large)}); got.SHA256 != hash(large) {
		t.Errorf("the report of a large file is %+v", got)
	}
	if !bytes.Equal(picture, imagetest.PNG(imagetest.Picture(60, 40))) {
		t.Fatal("the picture is not always the same")
	}
}
