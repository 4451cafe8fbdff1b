package pages_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/oauthhttp/pages"
)

func TestUsage_IsSaidInWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		usage         pages.Usage
		percent, text string
	}{
		{pages.Usage{Used: 0, Max: 10 << 30}, "0", "0 bytes of 10 GiB used, 10 GiB free"},
		{pages.Usage{Used: 3 << 29, Max: 10 << 30}, "15", "1.5 GiB of 10 GiB used, 8.5 GiB free"},
		{pages.Usage{Used: 1 << 20, Max: 3 << 20}, "33.3", "1 MiB of 3 MiB used, 2 MiB free"},
		{pages.Usage{Used: 12 << 30, Max: 10 << 30}, "100", "12 GiB of 10 GiB used, nothing is free"}, // the cap was lowered
		{pages.Usage{}, "100", "0 bytes of 0 bytes used, nothing is free"},
	} {
		if tt.usage.Percent() != tt.percent || tt.usage.Text() != tt.text {
			t.Errorf("%+v: %s %%, %s", tt.usage, tt.usage.Percent(), tt.usage.Text())
		}
		page := pages.FilesPage{Form: form, Usage: &tt.usage}
		d := read(t, func(w io.Writer) error { return newPages(t).Files(w, page) })
		meter := d.all("meter")[0]
		if meter.get("value") != tt.percent || meter.get("max") != "100" || !strings.Contains(d.text(), tt.text) || meter.get("aria-describedby") != "usage-text" {
			t.Errorf("the meter has %v", meter.Attr)
		}
	}
}

func TestFile_KindFitsOnATile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, mime, want string }{
		{"a.pdf", "application/pdf", "PDF"}, {"a.tar.gz", "application/gzip", "GZ"}, {"a", "video/mp4", "video"}, {"a.", "x", "file"}, {"a.longest", "image/png", "image"},
		{"a.<b>", "text/plain", "text"}, {"a.Ω", "audio/x", "audio"}, {"", "", "file"},
	} {
		if got := (pages.File{Name: tt.name, Type: tt.mime}).Kind(); got != tt.want {
			t.Errorf("%s, %s: %s, want %s", tt.name, tt.mime, got, tt.want)
		}
	}
	if title := (pages.File{Name: "\u200b\u202e"}).Title(); title != "A file without a name" {
		t.Errorf("an invisible name is %q", title)
	}
}

// The names of a series of recordings differ at their end, where the page had cut them.
func TestFile_TitleKeepsTheEndOfALongName(t *testing.T) {
	t.Parallel()
	x := strings.Repeat("x", 300)
	for name, want := range map[string]string{
		"short.txt":                              "short.txt",
		x[:80]:                                   x[:80],
		x[:81]:                                   x[:56] + "…" + x[:24],
		x[:231] + " of the year (12).tar.gz":     x[:56] + "…" + " of the year (12).tar.gz",
		strings.Repeat("x ", 40) + "\n12.txt":    strings.TrimSpace(strings.Repeat("x ", 28)) + "…" + strings.Repeat("x ", 9) + "12.txt",
		strings.Repeat("写", 90) + ".txt":         strings.Repeat("写", 56) + "…" + strings.Repeat("写", 20) + ".txt",
		x[:80] + "e\u0301" + x[:23]:              x[:56] + "…" + x[:23], // no mark without its character
		strings.Repeat("\u202e", 90) + "gpj.exe": "gpj.exe",
		x[:90] + "\u202egpj.exe":                 x[:56] + "…" + x[:17] + "gpj.exe",
	} {
		if got := (pages.File{Name: name}).Title(); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
		if got := (pages.RunningUpload{Name: name}).Title(); got != want {
			t.Errorf("a running upload: %q is %q, want %q", name, got, want)
		}
	}
}

func TestFiles_ShowWhatCanBeDone(t *testing.T) {
	t.Parallel()
	p := newPages(t)
	d := read(t, func(w io.Writer) error { return p.Files(w, filesPage("Words")) })
	for _, want := range []string{"Files of Words", "app Words", "Choose another account", "One file of up to 2 GiB.", "1.5 GiB of 10 GiB used", "1234 files", "b.pdf", "PDF", "21 Nov 2026, 14:05 UTC", "First page", "Next page", "Clear"} {
		if !strings.Contains(d.text(), want) {
			t.Errorf("the page does not say %q: %s", want, d.text())
		}
	}
	var items []document
	for _, item := range d.all("li") {
		if item.get("class") == "file" {
			items = append(items, item)
		}
	}
	if len(items) != 2 || len(items[0].all("form")) != 0 || items[0].all("a")[0].get("href") != "/account/files/view?item=1" || len(items[1].all("form")) != 1 || len(items[1].all("img")) != 0 {
		t.Fatalf("%d files: %s", len(items), d.source)
	}
	if strings.Contains(items[0].text(), "Not kept yet") || !strings.Contains(items[0].text(), "Public") || !strings.Contains(items[1].text(), "Not kept yet") || strings.Contains(items[1].text(), "Public") {
		t.Errorf("the files say %q and %q", items[0].text(), items[1].text())
	}
	if strings.Contains(d.text(), "team-a") {
		t.Errorf("owners read a namespace: %s", d.text())
	}
	image := items[0].all("img")[0]
	if image.get("src") != thumbnail || image.get("width") != "640" || image.get("height") != "480" || image.get("loading") != "lazy" || !image.has("alt") || image.get("alt") != "" { // the name beside it says what it is
		t.Errorf("the thumbnail has %v", image.Attr)
	}
	for _, item := range items {
		for _, control := range item.all("button", "a") {
			if control.text() != "Words" && control.text() != "b.pdf" && !strings.HasPrefix(control.get("aria-describedby"), "file-") {
				t.Errorf("%q does not say of which file", control.text())
			}
		}
	}

	d = read(t, func(w io.Writer) error {
		return p.Files(w, pages.FilesPage{Form: form, Account: account, State: "deleted"})
	})
	if len(d.all("details")) != 1 || len(d.all("meter")) != 0 || len(d.all("form")) != 1 || !strings.Contains(d.text(), "No deleted files") {
		t.Errorf("what may only be looked at: %s", d.source)
	}
	for state, count := range map[string]int{"": 8, "draft": 2} {
		page := pages.FilesPage{Form: form, State: state, Filter: pages.FileFilter{Sort: "-time", Type: "image/*"}}
		d := read(t, func(w io.Writer) error { return p.Files(w, page) })
		orders, selected := 0, []string{}
		for _, option := range d.all("option") {
			if strings.HasSuffix(option.text(), "first") || strings.HasPrefix(option.text(), "Name,") {
				orders++
			}
			if option.has("selected") {
				selected = append(selected, option.text())
			}
		}
		if orders != count || fmt.Sprint(selected) != "[Images Any access With or without Any shape Any size Newest first]" {
			t.Errorf("%q: %d orders, %v", state, orders, selected)
		}
	}
}
