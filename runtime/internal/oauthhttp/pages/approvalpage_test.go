package pages_test

import (
	"io"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/oauthhttp/pages"
)

// On a phone, the buttons were on the first screen and nothing of what is asked for, so that an owner allowed what he had not seen. All of it is
// named before the first button.
func TestApproval_SaysWhatIsWantedBeforeTheButtons(t *testing.T) {
	t.Parallel()
	file := pages.File{ID: "1", Name: "cover.jpg", Type: "image/jpeg", Size: 5}
	public := []pages.ApprovalDetail{{Name: "access", Value: "public"}}
	for what, one := range map[string]struct {
		steps []pages.ApprovalStep
		want  []string // in this order
		not   string
	}{
		"one delete": {[]pages.ApprovalStep{{Tool: "delete_media", File: &file, FileID: "1", Bytes: 2048}}, []string{"Wants to", "Delete cover.jpg", "2 KiB"}, "address"},
		"several kinds": {[]pages.ApprovalStep{
			{Tool: "delete_media", File: &file, FileID: "1", Bytes: 1024}, {Tool: "update_media", File: &file, FileID: "2", Bytes: 1 << 20, Details: public, Missing: true},
			{Tool: "delete_media", FileID: "3", Bytes: 512, Missing: true}, {Tool: "update_media_settings"}, {Tool: "seal_media", FileID: "4"}, {Tool: "restore_media", FileID: "5"}, {Tool: "restore_media", FileID: "6"},
		}, []string{"Delete 2 files", "1.5 KiB", "Make public cover.jpg", "1 MiB; everyone with the address can see public files", "Change the image settings", "Publish 4", "Restore 2 files as public files", "2 of the files were changed or deleted since"}, ""},
		"a change that publishes nothing": {[]pages.ApprovalStep{{Tool: "update_media", File: &file, FileID: "1", Details: []pages.ApprovalDetail{{Name: "access", Value: "private"}}}}, []string{"Change cover.jpg"}, "public files"},
		"what another version asks":       {[]pages.ApprovalStep{{Tool: "move_media", FileID: "1"}, {Tool: "move_media", FileID: "2"}}, []string{"move_media, 2 times"}, ""},
	} {
		page := pages.ApprovalPage{Form: form, State: "waiting", Application: "Desk", Steps: one.steps}
		d := read(t, func(w io.Writer) error { return newPages(t).Approval(w, page) })
		before, _, found := strings.Cut(d.text(), "Allow Deny")
		before = strings.TrimPrefix(before, "Allow these changes")
		if !found || len(d.all("form")) < 2 {
			t.Fatalf("%s: there are no buttons: %s", what, d.text())
		}
		rest := before
		for _, text := range one.want {
			var ok bool
			if _, rest, ok = strings.Cut(rest, text); !ok {
				t.Errorf("%s: before the buttons, the page does not say %q in its place: %s", what, text, before)
			}
		}
		if one.not != "" && strings.Contains(before, one.not) {
			t.Errorf("%s: the page says %q: %s", what, one.not, before)
		}
	}
}

// The names of arguments of tools are no words of an owner.
func TestApproval_NamesFieldsInWords(t *testing.T) {
	t.Parallel()
	file := pages.File{ID: "1", Name: "cover.jpg"}
	page := pages.ApprovalPage{Form: form, State: "waiting", Steps: []pages.ApprovalStep{
		{Tool: "update_media", File: &file, FileID: "1", Details: []pages.ApprovalDetail{{Name: "access", Value: "public"}, {Name: "fileName", Value: "new.jpg"}, {Name: "unknown", Value: "x"}}},
		{Tool: "update_media_settings", Details: []pages.ApprovalDetail{{Name: "webpOutputQuality", Value: "60"}, {Name: "thumbnailWidth", Value: "200"}}},
	}}
	d := read(t, func(w io.Writer) error { return newPages(t).Approval(w, page) })
	text := d.text()
	for _, want := range []string{"Make public cover.jpg", "Name new.jpg", "unknown x", "WebP quality 60", "Width of thumbnails 200"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q: %s", want, text)
		}
	}
	for _, name := range []string{"fileName", "webpOutputQuality", "access public"} {
		if strings.Contains(text, name) {
			t.Errorf("the page says %q: %s", name, text)
		}
	}
}

// What has ended says that nothing was changed, and a delete that was carried out until when it can be undone.
func TestApproval_SaysWhatHasBecomeOfIt(t *testing.T) {
	t.Parallel()
	file := pages.File{ID: "1", Name: "cover.jpg"}
	for state, want := range map[string]bool{"denied": true, "expired": true, "done": false, "allowed": false, "waiting": false} {
		page := pages.ApprovalPage{Form: form, Account: pages.Account{ID: "an-id"}, State: state, Steps: []pages.ApprovalStep{{Tool: "delete_media", File: &file, FileID: "1", Deleted: state == "done", RestorableUntil: moment, State: "done"}}}
		d := read(t, func(w io.Writer) error { return newPages(t).Approval(w, page) })
		if got := strings.Contains(d.text(), "Nothing was changed."); got != want {
			t.Errorf("%s: says that nothing was changed: %t", state, got)
		}
		if got := strings.Contains(d.text(), "Delete cover.jpg") && strings.Contains(d.text(), "It can be restored until 21 Nov 2026, 14:05 UTC") && strings.Contains(d.source, "/account/files?account=an-id&amp;state=deleted"); got != (state == "done") {
			t.Errorf("%s: says how to restore it: %t: %s", state, got, d.text())
		}
	}
}

// Undo is for kept files, so the page says which of the files it does not help.
func TestApproval_SaysThatADraftCannotBeRestored(t *testing.T) {
	t.Parallel()
	for _, draft := range []bool{true, false} {
		file := pages.File{ID: "1", Name: "cover.jpg"}
		if draft {
			file.ExpiresAt = moment
		}
		page := pages.ApprovalPage{Form: form, State: "waiting", Steps: []pages.ApprovalStep{{Tool: "delete_media", File: &file, FileID: "1", State: "waiting"}}}
		d := read(t, func(w io.Writer) error { return newPages(t).Approval(w, page) })
		if got := strings.Contains(d.text(), "it cannot be restored"); got != draft {
			t.Errorf("draft %t: the page says that it cannot be restored: %t", draft, got)
		}
	}
}
