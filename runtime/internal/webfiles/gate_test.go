package webfiles_test

import (
	"net/http"
	"testing"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
	"mediastack.dev/runtime/media"
)

// An upload and a seal on the page wait for the result, and say so.
func TestFiles_AreCheckedBeforeTheyAreSealed(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	w.Change(t, tenant, func(s *account.Spec) { s.Gate = account.Gate{Scanner: account.ScannerClamd, MaxScanBytes: 1 << 20} })
	rt := w.Replica(t)
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	p = b.Upload(p, "report.txt", "report")
	p.Says(t, http.StatusOK, "The file is checked for malware.", "report.txt", "Is checked for malware, and kept once it is clean")
	w.Counts(t, 0, "sealed items", "SELECT count(*) FROM stored_item WHERE sealed_at IS NOT NULL")
	next := func(query string) webtest.Page {
		return b.Get("/account/files?account=" + tenant.Account.ID.String() + query)
	}
	drafts, err := w.Store.Items.FindItems(t.Context(), media.ScopeOf(w.Principal(t, tenant)), media.Query{Drafts: true}, nil, 10)
	if err != nil || len(drafts.Items) != 1 {
		t.Fatalf("%+v, %v", drafts, err)
	}
	sealed, err := w.Store.Gates.Pass(t.Context(), tenant.Account.ID, drafts.Items[0].ID, time.Now())
	if err != nil || !sealed {
		t.Fatalf("%t, %v", sealed, err)
	}
	next("").Says(t, http.StatusOK, "report.txt")
	draft := rt.Item(t, w, tenant, "locked.zip", "locked", false)
	p = b.Change("seal", next("&state=draft"), tenant, draft.ID.String(), "back", "state=draft")
	p.Says(t, http.StatusOK, "The file is checked for malware.", "locked.zip", "Is checked for malware")
	if _, err := w.Store.Gates.Deny(t.Context(), tenant.Account.ID, draft.ID, gate.Notice{}); err != nil {
		t.Fatal(err)
	}
	p = next("&state=draft")
	p.Says(t, http.StatusOK, "locked.zip", "Cannot be checked for malware, and is not kept")
	b.Change("seal", p, tenant, draft.ID.String(), "back", "state=draft").Says(t, http.StatusUnprocessableEntity, "The file cannot be checked for malware")
	w.Counts(t, 1, "sealed items", "SELECT count(*) FROM stored_item WHERE sealed_at IS NOT NULL")
}

func TestFiles_SelectedOnesAreCheckedBeforeTheyAreKept(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	w.Change(t, tenant, func(s *account.Spec) { s.Gate = account.Gate{Scanner: account.ScannerClamd, MaxScanBytes: 1 << 20} })
	rt := w.Replica(t)
	items := []media.Item{rt.Item(t, w, tenant, "a.txt", "a", false), rt.Item(t, w, tenant, "b.txt", "b", false)}
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	selected(b, p, tenant, "keep", items, "back", "state=draft").Says(t, http.StatusOK, "The files are checked for malware.", "a.txt", "Is checked for malware")
	w.Counts(t, 0, "sealed items", "SELECT count(*) FROM stored_item WHERE sealed_at IS NOT NULL")
}

// What is not checked is in no archive.
func TestSelected_FilesThatAreNotCheckedAreInNoArchive(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	w.Change(t, tenant, func(s *account.Spec) { s.Gate = account.Gate{Scanner: account.ScannerClamd, MaxScanBytes: 1 << 20} })
	rt := w.Replica(t)
	waits, denied, passed := rt.Item(t, w, tenant, "waits.txt", "a", false), rt.Item(t, w, tenant, "denied.txt", "b", false), rt.Item(t, w, tenant, "passed.txt", "c", false)
	if _, err := w.Store.Gates.Deny(t.Context(), tenant.Account.ID, denied.ID, gate.Notice{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Store.Gates.Pass(t.Context(), tenant.Account.ID, passed.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	for _, one := range []media.Item{waits, denied} {
		selected(b, p, tenant, "download", []media.Item{passed, one}, "back", "state=draft").Says(t, http.StatusConflict, "The file "+one.FileName+" is not checked for malware yet")
	}
	if got := selected(b, p, tenant, "download", []media.Item{passed}, "back", "state=draft"); got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/zip" {
		t.Errorf("a file that was checked: %d %v", got.StatusCode, got.Header)
	}
}
