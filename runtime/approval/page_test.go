package approval_test

import (
	"net/http"
	"strings"
	"testing"
)

// The page of a restore had an id only, so the owner allowed blindly what became public.
func TestPage_ShowsWhatWasDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio")
	by := w.application(t, tenant)
	item := w.sealed(t, tenant, "payroll.txt")
	w.Exec(t, `UPDATE item SET access = 'public' WHERE id = '`+item+`'`)
	q := w.asked(t, by, "delete_media", object{"mediaId": item})
	b, p := w.open(t, q)
	p.Says(t, http.StatusOK, "Delete payroll.txt")
	decide(b, p, "allow")
	w.carryOut(t, q)
	b.Get(q.path()).Says(t, http.StatusOK, "payroll.txt", "Done")
	q = w.asked(t, by, "restore_media", object{"mediaId": item})
	b, p = w.open(t, q)
	p.Says(t, http.StatusOK, "Restore as a public file payroll.txt")
	decide(b, p, "allow")
	w.carryOut(t, q)
	w.Counts(t, 1, "items that are public again", `SELECT count(*) FROM item WHERE id = $1 AND access = 'public'`, item)
	b.Get(q.path()).Says(t, http.StatusOK, "payroll.txt", "Done")
}

// A file that becomes public was one of many changes in a list below the buttons.
func TestPage_CountsTheKindsOfChangesAboveTheButtons(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio")
	by := w.application(t, tenant)
	for range 3 {
		w.asked(t, by, "delete_media", object{"mediaId": w.sealed(t, tenant, "junk.txt")})
	}
	q := w.asked(t, by, "update_media", object{"mediaId": w.sealed(t, tenant, "payroll.txt"), "access": "public"})
	_, p := w.open(t, q)
	p.Says(t, http.StatusOK, "Delete 3 files", "Make public payroll.txt")
}

// The summary had the bytes of the files with their thumbnails and conversions, as a number without a unit.
func TestSummary_SaysTheSizeOfTheOriginalsInWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio")
	by := w.application(t, tenant)
	var q question
	for _, name := range []string{"a.txt", "b.txt"} {
		item := w.pages.Item(t, w.World, tenant, name, strings.Repeat("x", 1536), true).ID.String()
		w.Exec(t, `UPDATE stored_item SET bytes = bytes + 5000000, objects = objects || '[{"variant":"thumbnail","key":"x","bytes":5000000}]' WHERE id = '`+item+`'`)
		q = w.asked(t, by, "delete_media", object{"mediaId": item})
	}
	const want = "delete 2 files (3 KiB)"
	if told := call(t, w.tools, by, "get_approval", object{"approvalId": q.ApprovalID}).text(); q.Summary != want || !strings.Contains(told, want) {
		t.Errorf("the summary is %q, and later %s", q.Summary, told)
	}
	_, p := w.open(t, q)
	p.Says(t, http.StatusOK, "Delete 2 files", "3 KiB")
}
