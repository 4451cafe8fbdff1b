package rest_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
)

// taken is a photo with the tags that exiftool writes.
func taken(t *testing.T, tags ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "photo.jpg")
	must(t, os.WriteFile(path, photo(t, 40, 30), 0o600))
	if out, err := exec.CommandContext(t.Context(), "exiftool", append(append([]string{"-q", "-overwrite_original", "-n"}, tags...), path)...).CombinedOutput(); err != nil {
		t.Fatalf("exiftool: %v: %s", err, out)
	}
	file, err := os.ReadFile(path)
	must(t, err)
	return file
}

// TestCapture_OfDocumentsAndSearches uploads photos, and finds them by when and where they were made, in an account that keeps locations, and in
// one that does not.
func TestCapture_OfDocumentsAndSearches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.tenant(t, "one", func(s *account.Spec) { s.KeepLocation = true }), w.tenant(t, "other")
	rt := w.runtime(t, func(o *options) { o.Images = true })
	files := map[string][]byte{
		"paris.jpg":  taken(t, "-EXIF:Make=Apple", "-EXIF:Model=iPhone 15", "-EXIF:LensModel=back camera", "-EXIF:DateTimeOriginal=2024:05:01 12:30:45", "-EXIF:OffsetTimeOriginal=+02:00", "-GPSLatitude=48.8584", "-GPSLatitudeRef=N", "-GPSLongitude=2.2945", "-GPSLongitudeRef=E", "-XMP-dc:Title=<b>Tower\u202e</b>", "-XMP:Rating=4"),
		"sydney.jpg": taken(t, "-EXIF:DateTimeOriginal=2023:12:24 18:00:00", "-GPSLatitude=33.8568", "-GPSLatitudeRef=S", "-GPSLongitude=151.2153", "-GPSLongitudeRef=E"),
		"scan.jpg":   taken(t, "-EXIF:DateTimeOriginal=1965:06:01 00:00:00"),
		"plain.jpg":  taken(t),
	}
	items := map[string]api.MediaItem{}
	for _, name := range []string{"scan.jpg", "plain.jpg", "sydney.jpg", "paris.jpg"} {
		items[name] = rt.sealed(t, one.Key, filePart(name, files[name]), field("access", "public"))
		rt.sealed(t, other.Key, filePart(name, files[name]))
	}
	paris := items["paris.jpg"]
	want := api.Capture{Camera: "Apple iPhone 15", Lens: "back camera", Title: "<b>Tower</b>", Rating: 4, Location: &api.Location{Latitude: 48.8584, Longitude: 2.2945}}
	if c := paris.Capture; paris.CapturedAt != "2024-05-01T12:30:45+02:00" || c == nil || c.Location == nil || *c.Location != *want.Location || c.Title != want.Title || c.Camera != want.Camera || c.Lens != want.Lens || c.Rating != want.Rating || c.ContentCredentials != "" {
		t.Errorf("%q, %+v", paris.CapturedAt, c)
	}
	if plain := items["plain.jpg"]; plain.CapturedAt != "" || plain.Capture != nil || items["sydney.jpg"].CapturedAt != "2023-12-24T18:00:00" {
		t.Errorf("%q, %+v; %q", plain.CapturedAt, plain.Capture, items["sydney.jpg"].CapturedAt)
	}
	for _, tt := range []struct {
		query string
		want  []string
	}{
		{"sort=captured", []string{"scan.jpg", "sydney.jpg", "paris.jpg", "plain.jpg"}},
		{"sort=-captured&limit=2", []string{"plain.jpg", "paris.jpg"}},
		{"sort=captured&capturedFrom=1900-01-01T00:00:00Z", []string{"scan.jpg", "sydney.jpg", "paris.jpg"}},
		{"capturedFrom=2024-05-01T10:30:45Z", []string{"paris.jpg"}},
		{"capturedFrom=2024-05-01T10:30:46Z", []string{}},
		{"capturedTo=2024-01-01T00:00:00Z", []string{"sydney.jpg", "scan.jpg"}},
		{"capturedTo=1970-01-01T00:00:00Z", []string{"scan.jpg"}},
		{"near=48.86,2.29,1000", []string{"paris.jpg"}},
		{"near=48.86,2.29,100", []string{}},
		{"near=-33.8568,151.2153,1", []string{"sydney.jpg"}},
		{"near=48.86,2.29,1000&name=sydney", []string{}},
		{"near=48.86,2.29,1000&capturedFrom=2024-01-01T00:00:00Z&sort=name", []string{"paris.jpg"}},
	} {
		_, names := rt.named(t, one, tt.query)
		if !slices.Equal(names, tt.want) {
			t.Errorf("%s: %q, want %q", tt.query, names, tt.want)
		}
		if strings.Contains(tt.query, "sort") {
			continue
		}
		if counted := decode[api.Count](t, rt.do(t, http.MethodGet, "/media/get/count?"+tt.query, key(one.Key))); counted != (api.Count{Count: int64(len(tt.want))}) {
			t.Errorf("%s: counted %+v", tt.query, counted)
		}
	}
	// An account that keeps no locations has times, and nothing that says where.
	if _, names := rt.named(t, other, "near=48.86,2.29,500000"); len(names) != 0 {
		t.Errorf("by location: %q", names)
	}
	got, names := rt.named(t, other, "sort=captured")
	if !slices.Equal(names, []string{"scan.jpg", "sydney.jpg", "paris.jpg", "plain.jpg"}) || strings.Contains(string(got.Body), "48.8") || strings.Contains(string(got.Body), "latitude") || !strings.Contains(string(got.Body), "iPhone") {
		t.Errorf("%q: %s", names, got.Body)
	}
	// The next page of a list, by its link.
	first, _ := rt.named(t, one, "sort=captured&near=48.86,2.29,500000&limit=1")
	if next := first.Header.Get("X-Next-Cursor"); next != "" {
		t.Errorf("a list of one item continues: %s", next)
	}
	page, _ := rt.named(t, one, "sort=captured&capturedFrom=1900-01-01T00:00:00Z&limit=1")
	next := page.Header.Get("X-Next-Cursor")
	if _, names := rt.named(t, one, "sort=captured&capturedFrom=1900-01-01T00:00:00Z&limit=2&after="+next); !slices.Equal(names, []string{"sydney.jpg", "paris.jpg"}) {
		t.Errorf("the next page is %q", names)
	}
	rt.do(t, http.MethodGet, "/media/get?sort=captured&capturedFrom=1901-01-01T00:00:00Z&limit=2&after="+next, key(one.Key)).invalid(t, "after is the cursor of another list")
	if link := page.Header.Get("Link"); !strings.Contains(link, "capturedFrom=1900-01-01T00%3A00%3A00Z") || !strings.Contains(link, "sort=captured") {
		t.Errorf("the link of the next page: %s", link)
	}
	// Selected members, and the pictures that are shared.
	selected := rt.do(t, http.MethodGet, "/media/get/"+paris.MediaId.String()+"?fields=capturedAt,capture", key(one.Key))
	if !strings.HasPrefix(string(selected.Body), `{"capturedAt":"2024-05-01T12:30:45+02:00","capture":{"camera":"Apple iPhone 15"`) {
		t.Errorf("selected: %s", selected.Body)
	}
	folder := t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, "thumbnail.webp"), rt.do(t, http.MethodGet, paris.Thumbnail).Body, 0o600))
	out, err := exec.CommandContext(t.Context(), "exiftool", "-G1", "-s", filepath.Join(folder, "thumbnail.webp")).Output()
	must(t, err)
	if strings.Contains(string(out), "GPS") || strings.Contains(string(out), "Apple") || !strings.Contains(string(out), "WEBP") {
		t.Errorf("the thumbnail says: %s", out)
	}
}
