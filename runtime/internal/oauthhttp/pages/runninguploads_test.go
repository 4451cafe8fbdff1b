package pages_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/oauthhttp/pages"
)

func TestFiles_ShowRunningUploads(t *testing.T) {
	t.Parallel()
	page := pages.FilesPage{Form: form, Account: pages.Account{ID: "an-account"}, Back: "state=draft", Running: &pages.RunningUploads{More: true, Uploads: []pages.RunningUpload{
		{ID: "1", Name: "<b>film.mp4", Size: 10 << 30, Received: 3 << 30, Age: 3*time.Hour + time.Minute, ExpiresAt: moment, CanCancel: true},
		{ID: "2", Name: "\u202e", Size: -1, Received: 5, Age: -time.Second, ExpiresAt: moment},
		{ID: "3", Name: "empty", Size: 0, ExpiresAt: moment},
	}}}
	d := read(t, func(w io.Writer) error { return newPages(t).Files(w, page) })
	for _, want := range []string{"Running uploads", "Only 3 are listed, the newest first.", "<b>film.mp4", "3 GiB of 10 GiB. Started 3 hours ago. Expires 21 Nov 2026, 14:05 UTC", "A file without a name", "5 bytes, of an unknown size. Started less than a minute ago.", "Cancel upload"} {
		if !strings.Contains(d.text(), want) {
			t.Errorf("the page does not say %q: %s", want, d.text())
		}
	}
	bars, forms := d.all("progress"), 0
	for _, one := range d.all("form") {
		if one.get("action") != "/account/files/cancel?request=the-request&account=an-account" {
			continue
		}
		forms++
		fields := map[string]string{}
		for _, field := range one.all("input") {
			fields[field.get("name")] = field.get("value")
		}
		if fields["item"] != "1" || fields["csrf"] != "the-csrf" || fields["account"] != "an-account" || fields["back"] != "state=draft" || one.get("method") != "post" {
			t.Errorf("the form sends %v", fields)
		}
	}
	if len(bars) != 1 || bars[0].get("value") != "30" || forms != 1 {
		t.Errorf("%d bars and %d forms: %s", len(bars), forms, d.source)
	}
	for name, running := range map[string]*pages.RunningUploads{"not shown": nil, "none": {}} {
		page.Running = running
		if d := read(t, func(w io.Writer) error { return newPages(t).Files(w, page) }); strings.Contains(d.text(), "Running uploads") {
			t.Errorf("%s: %s", name, d.text())
		}
	}
}

// An upload of which a part is missing was said to be complete.
func TestRunningUpload_ShowsNoMoreThanHasArrived(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		size, received int64
		percent        string
	}{
		{1000, 0, "0"}, {1000, 9, "0"}, {1000, 10, "1"}, {1000, 999, "99"}, {1000, 1000, "100"}, {1<<63 - 1, 1 << 62, "50"}, {0, 0, ""}, {-1, 7, ""},
	} {
		if got := (pages.RunningUpload{Size: tt.size, Received: tt.received}).Percent(); got != tt.percent {
			t.Errorf("%d of %d bytes are %s %%, want %s", tt.received, tt.size, got, tt.percent)
		}
	}
}
