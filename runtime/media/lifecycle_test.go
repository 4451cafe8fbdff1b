package media_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

func TestItem_CompletesItsLifecycle(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"empty": 0, "one byte": 1, "small": 100_000, "exactly one part": upload.PartSize,
		"one byte over a part": upload.PartSize + 1, "exactly two parts": 2 * upload.PartSize, "the largest single put": upload.MaxSinglePut, "one byte over it": upload.MaxSinglePut + 1, "several parts": 3*upload.PartSize + 4711} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.Tenant(1 << 30)
			data := random(size)
			draft := b.Upload(p, data, media.Fields{FileName: "a/b/写真.bin", Caption: "c", Group: "g", Access: media.Public})
			if !draft.Draft() || draft.FileName != "写真.bin" || draft.File().Bytes != int64(size) {
				t.Errorf("the draft is %+v", draft)
			}
			if sum := sha256.Sum256(data); !bytes.Equal(draft.File().SHA256, sum[:]) {
				t.Error("the hash of the upload is wrong")
			}
			if page, err := b.Items.List(t.Context(), p, media.Filter{}, 1, 10); err != nil || len(page.Items) != 0 || page.Total != 0 {
				t.Errorf("a draft is listed: %+v, %v", page, err)
			}
			b.Balanced(p)

			sealed, err := b.Items.Seal(t.Context(), p, draft.ID)
			must(t, err)
			again, err := b.Items.Seal(t.Context(), p, draft.ID)
			must(t, err)
			if sealed.Draft() || again.SealedAt == nil || !again.SealedAt.Equal(*sealed.SealedAt) || len(sealed.Objects) != 1 {
				t.Errorf("sealed %+v, then %+v", sealed, again)
			}
			if got := b.BytesOf(p, sealed.File()); !bytes.Equal(got, data) {
				t.Error("other bytes came back")
			}
			page, err := b.Items.List(t.Context(), p, media.Filter{Group: "g", Access: media.Public}, 1, 10)
			must(t, err)
			if len(page.Items) != 1 || page.Total != 1 || page.Items[0].ID != draft.ID {
				t.Errorf("listed %+v", page)
			}
			totals, err := b.Items.Totals(t.Context(), p)
			must(t, err)
			if totals.Storage != int64(size) || totals.MaxStorage != 1<<30 {
				t.Errorf("totals are %+v", totals)
			}
			b.Balanced(p)

			must(t, deleteItem(t.Context(), b.Items, p, draft.ID))
			if err := deleteItem(t.Context(), b.Items, p, draft.ID); !fault.Is(err, fault.NotFound) {
				t.Errorf("deleting twice: %v", err)
			}
			if left := b.Stored(p); len(left) != 0 {
				t.Errorf("objects are left: %v", left)
			}
			b.Counts(0, "removals are left", `SELECT count(*) FROM object_removal`)
			b.Balanced(p)
		})
	}
}

func TestItem_OfAnotherTenantIsNotFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	mine, yours := b.Tenant(1<<30), b.Tenant(1<<30)
	item := b.Sealed(mine, random(10), media.Fields{})
	for name, call := range map[string]func(id uuid.UUID) error{
		"get":    func(id uuid.UUID) error { _, err := b.Items.Get(t.Context(), yours, id); return err },
		"seal":   func(id uuid.UUID) error { _, err := b.Items.Seal(t.Context(), yours, id); return err },
		"delete": func(id uuid.UUID) error { return deleteItem(t.Context(), b.Items, yours, id) },
	} {
		foreign, missing := call(item.ID), call(uuid.New())
		if !fault.Is(foreign, fault.NotFound) || fault.From(foreign).Public != fault.From(missing).Public {
			t.Errorf("%s: the error for another tenant's item is %v, for a missing one %v", name, foreign, missing)
		}
	}
	if page, err := b.Items.List(t.Context(), yours, media.Filter{}, 1, 10); err != nil || page.Total != 0 || len(page.Items) != 0 {
		t.Errorf("another tenant's list shows %+v, %v", page, err)
	}
	if _, err := b.Items.Get(t.Context(), mine, item.ID); err != nil {
		t.Errorf("the owner's own item: %v", err)
	}
}

func TestList_ReturnsNewestFirstWithoutGapsBetweenPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	var want []uuid.UUID
	for i := range 23 {
		fields := media.Fields{FileName: fmt.Sprint(i)}
		if i%2 == 0 {
			fields.Access, fields.Group = media.Public, "even"
		}
		want = append(want, b.Sealed(p, random(i), fields).ID)
	}
	slices.Reverse(want)
	for name, c := range map[string]struct {
		filter media.Filter
		want   []uuid.UUID
	}{
		"all":             {media.Filter{}, want},
		"by access":       {media.Filter{Access: media.Public}, every(want, 0)},
		"by group":        {media.Filter{Group: "even"}, every(want, 0)},
		"by both":         {media.Filter{Group: "even", Access: media.Public}, every(want, 0)},
		"without a match": {media.Filter{Group: "even", Access: media.Private}, nil},
		"private":         {media.Filter{Access: media.Private}, every(want, 1)},
	} {
		var got []uuid.UUID
		for number := 1; ; number++ {
			page, err := b.Items.List(t.Context(), p, c.filter, number, 5)
			must(t, err)
			if page.Total != int64(len(c.want)) {
				t.Errorf("%s: total %d, want %d", name, page.Total, len(c.want))
			}
			if len(page.Items) == 0 {
				break
			}
			for _, item := range page.Items {
				got = append(got, item.ID)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: listed %v, want %v", name, got, c.want)
		}
	}
	for _, bad := range [][2]int{{0, 10}, {1, 0}, {1, 101}, {-1, 10}, {1 << 40, 10}} {
		if _, err := b.Items.List(t.Context(), p, media.Filter{}, bad[0], bad[1]); !fault.Is(err, fault.Invalid) {
			t.Errorf("page %d, limit %d: %v", bad[0], bad[1], err)
		}
	}
}

// every returns each second id, beginning with the one at first.
func every(ids []uuid.UUID, first int) []uuid.UUID {
	var half []uuid.UUID
	for i := first; i < len(ids); i += 2 {
		half = append(half, ids[i])
	}
	return half
}
