package media_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

// A preview names what the update changes, fails where it fails, and changes nothing.
func TestPreviewUpdate_SaysWhatUpdateDoes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, other := b.Tenant(1<<20), b.Tenant(1<<20)
	item, err := uploadFile(t.Context(), b.Uploads, p, bytes.NewReader([]byte("x")), media.Fields{FileName: "a.txt"})
	must(t, err)
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(values ...string) *string {
		if n := random.IntN(len(values) + 1); n < len(values) {
			return &values[n]
		}
		return nil
	}
	outcomes := map[string]int{}
	for range 200 {
		change := media.Change{Caption: pick("", "a", "b"), Group: pick("", "g", "h\n"), FileName: pick("a.txt", "b.txt", "")}
		if access := pick("public", "private", "secret"); access != nil {
			change.Access = new(media.Access(*access))
		}
		if random.IntN(2) == 0 {
			change.Metadata = map[string]*string{"a": pick("1", "2")}
		}
		if random.IntN(20) == 0 {
			change.Focus, change.SetFocus = &media.FocusPoint{X: 1, Y: 1}, true // the file is no image
		}
		before, err := b.Items.Get(t.Context(), p, item.ID)
		must(t, err)
		foreseen, _, previewErr := b.Items.PreviewUpdate(t.Context(), p, item.ID, change)
		if after, err := b.Items.Get(t.Context(), p, item.ID); err != nil || after.Version != before.Version || len(before.ChangedFields(after)) > 0 {
			t.Fatalf("the preview of %+v made %+v of %+v: %v", change, after, before, err)
		}
		changed, fields, err := b.Items.UpdateFields(t.Context(), p, item.ID, change)
		if !slices.Equal(fields, foreseen) || fmt.Sprint(err) != fmt.Sprint(previewErr) {
			t.Fatalf("%+v of %+v: foreseen %q %v, got %q %v", change, before, foreseen, previewErr, fields, err)
		}
		if err == nil && !slices.Equal(before.ChangedFields(changed), fields) {
			t.Fatalf("%+v of %+v: changed %q, said %q", change, before, before.ChangedFields(changed), fields)
		}
		outcomes[fmt.Sprint(err != nil, len(fields) > 0)]++
	}
	if len(outcomes) != 3 { // failed, changed, unchanged
		t.Errorf("the changes had the outcomes %v", outcomes)
	}
	if _, _, err := b.Items.PreviewUpdate(t.Context(), other, item.ID, media.Change{Caption: new("c")}); !fault.Is(err, fault.NotFound) {
		t.Errorf("another tenant's item: %v", err)
	}
}
