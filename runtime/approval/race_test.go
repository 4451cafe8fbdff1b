package approval_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/work"
)

// race calls do so often at once.
func race(times int, do func(n int)) {
	var all sync.WaitGroup
	begin := make(chan struct{})
	for n := range times {
		all.Go(func() { <-begin; do(n) })
	}
	close(begin)
	all.Wait()
}

// 500 racers decide and carry out one approval on two replicas: it is decided once, and each item is deleted once.
func TestRace_OneApprovalIsCarriedOutOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", func(s *account.Spec) { s.Undo = account.Undo{} })
	by := w.application(t, tenant)
	var q question
	for n := range 3 {
		q = w.asked(t, by, "delete_media", object{"mediaId": w.sealed(t, tenant, strconv.Itoa(n)+".txt")})
	}
	found, err := w.tools.Approvals.Find(t.Context(), uuid.MustParse(q.ApprovalID))
	must(t, err)
	var decided, denied atomic.Int64
	race(500, func(n int) {
		service := []*approval.Service{w.tools.Approvals, w.pages.Approvals}[n%2]
		decision := approval.Decision{ID: found.ID, AccountID: found.AccountID, Revision: found.Revision, Allow: n%4 != 3, By: runtimetest.Owner}
		switch err := service.Decide(t.Context(), decision); {
		case err == nil && decision.Allow:
			decided.Add(1)
		case err == nil:
			denied.Add(1)
		case !errors.Is(err, approval.ErrDecided):
			t.Errorf("decide: %v", err)
		}
		if err := service.Work(t.Context(), work.Task{Kind: approval.Work, Key: found.ID}); err != nil {
			t.Errorf("carry out: %v", err)
		}
	})
	if decided.Load()+denied.Load() != 1 {
		t.Fatalf("it was allowed %d and denied %d times", decided.Load(), denied.Load())
	}
	w.carryOut(t, q)
	want := 3 * decided.Load()
	w.Counts(t, want, "events of deletes", `SELECT count(*) FROM journal WHERE type = 'media.deleted'`)
	w.Counts(t, want, "steps that are done", `SELECT count(*) FROM approval_step WHERE state = 'done'`)
	w.Counts(t, 3-want, "items", `SELECT count(*) FROM item`)
}

// 64 connections on two replicas reach each ceiling exactly: each of them its own, and all together that of the account.
func TestCeilings_AreExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	const connections, items, each, total = 64, 4, 2, 100
	w := newWorld(t)
	other := w.service(t)
	tenant := w.tenant(t, "studio", func(s *account.Spec) {
		s.ToolPolicy.Approval = account.Approval{}
		s.ToolPolicy.Ceilings = account.Ceilings{Each: account.Ceiling{DeletesPerHour: each}, Total: account.Ceiling{DeletesPerHour: total}}
	})
	by := make([]runtimetest.Option, connections)
	ids := make([][items]string, connections)
	for n := range by {
		by[n] = w.application(t, tenant)
		for i := range items {
			ids[n][i] = w.sealed(t, tenant, "a.txt")
		}
	}
	var done, rejected atomic.Int64
	perConnection := make([]atomic.Int64, connections)
	race(connections*items, func(n int) {
		result := call(t, []*runtimetest.Service{w.tools, other}[n%2], by[n%connections], "delete_media", object{"mediaId": ids[n%connections][n/connections]})
		switch {
		case !result.IsError:
			done.Add(1)
			perConnection[n%connections].Add(1)
		case strings.Contains(result.text(), "the ceiling for"):
			rejected.Add(1)
		default:
			t.Errorf("delete: %s", result.text())
		}
	})
	if done.Load() != total || w.deleted(t) != total || rejected.Load() != connections*items-total {
		t.Errorf("%d deletes succeeded, %d were rejected, and %d items are deleted, want %d", done.Load(), rejected.Load(), w.deleted(t), total)
	}
	for n := range perConnection {
		if got := perConnection[n].Load(); got > each {
			t.Errorf("the connection %d deleted %d items", n, got)
		}
	}
	w.Counts(t, total, "deletes that are counted", `SELECT used FROM connection_use WHERE connection = ''`)
	// A window that is over permits the same again.
	w.Exec(t, `UPDATE connection_use SET window_start = now() - interval '1 hour'`)
	again := 0
	for n := range connections {
		for i := range items {
			if result := call(t, other, by[n], "delete_media", object{"mediaId": ids[n][i]}); !result.IsError {
				again++
			}
		}
	}
	if again != total {
		t.Errorf("an hour later %d deletes succeeded, want %d", again, total)
	}
}

// Uploads and uploads from a URL have ceilings of their own. What was not stored is given back.
func TestCeilings_OfUploads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", func(s *account.Spec) {
		s.ToolPolicy.Approval = account.Approval{}
		s.ToolPolicy.Ceilings = account.Ceilings{Each: account.Ceiling{UploadBytesPerDay: 1000, FetchesPerDay: 2}, Total: account.Ceiling{UploadBytesPerDay: 1500}}
	})
	one, two := w.application(t, tenant), w.application(t, tenant)
	upload := func(by runtimetest.Option, bytes int) outcome {
		t.Helper()
		return call(t, w.tools, by, "upload_media", object{"fileBase64": strings.Repeat("AAAA", bytes/3), "fileName": "a.bin", "mimeType": "application/octet-stream"})
	}
	for _, step := range []struct {
		by    runtimetest.Option
		bytes int
		ok    bool
	}{{one, 600, true}, {one, 600, false}, {one, 399, true}, {two, 600, false}, {two, 501, true}, {two, 3, false}, {one, 3000, false}} {
		if result := upload(step.by, step.bytes); result.IsError == step.ok || !step.ok && !strings.Contains(result.text(), "the ceiling for") {
			t.Errorf("%d bytes: %s", step.bytes, result.text())
		}
	}
	w.Counts(t, 1500, "bytes that are counted", `SELECT used FROM connection_use WHERE connection = '' AND kind = 'upload bytes'`)
	w.Counts(t, 3, "drafts", `SELECT count(*) FROM item`)
	answer, err := w.tools.Send(t.Context(), http.MethodPost, "/media/create", one, runtimetest.Text("x"), runtimetest.Header("Content-Type", "application/octet-stream"), runtimetest.Header("X-Filename", "a.bin"))
	must(t, err)
	if answer.Status < 400 {
		t.Errorf("an upload by REST with the token: %d %s", answer.Status, answer.Body)
	}
	for n := range 4 {
		result := call(t, w.tools, one, "upload_media_from_url", object{"url": "https://files.example.org/a.bin"})
		if result.IsError != (n >= 2) {
			t.Errorf("upload %d from a URL: %s", n, result.text())
		}
	}
	w.Counts(t, 2, "uploads from a URL", `SELECT count(*) FROM fetch_job`)
	// A program with a key over REST is no connection.
	w.pages.Item(t, w.World, tenant, "free.txt", "more than nothing", false)
}

// With Bulk, so many deletes pass in a time. The owner may allow more of them in advance.
func TestBulk_WaitsBeyondTheFirstItems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", func(s *account.Spec) {
		s.ToolPolicy.Approval = account.Approval{Delete: account.RuleBulk, BulkItems: 5, BulkWindow: time.Hour}
	})
	by, other := w.application(t, tenant), w.application(t, tenant)
	ids := make([]string, 60)
	for n := range ids {
		ids[n] = w.sealed(t, tenant, "a.txt")
	}
	passes := func(by runtimetest.Option, ids []string) (passed int) {
		var n atomic.Int64
		race(len(ids), func(i int) {
			if result := call(t, w.tools, by, "delete_media", object{"mediaId": ids[i]}); strings.Contains(result.text(), `"deleted":true`) {
				n.Add(1)
			}
		})
		return int(n.Load())
	}
	if got := passes(by, ids[:20]); got != 5 {
		t.Errorf("%d deletes passed without the owner, want 5", got)
	}
	if got := passes(other, ids[50:54]); got != 4 {
		t.Errorf("%d of 4 deletes of another connection passed", got)
	}
	var left string
	for _, id := range ids[:20] {
		if w.QueryInt(t, `SELECT count(*) FROM item WHERE id = $1`, id) == 1 {
			left = id
		}
	}
	q := w.asked(t, by, "delete_media", object{"mediaId": left})
	b, p := w.open(t, q)
	p.Says(t, http.StatusOK, "Allow, and 20 more deletes for an hour")
	decide(b, p, "more").Says(t, http.StatusOK, "You allowed this")
	w.carryOut(t, q)
	if got := w.told(t, by, q); got.State != "done" || len(got.Results) != 15 {
		t.Errorf("after the yes: %+v", got)
	}
	if got := passes(by, ids[20:50]); got != 20 {
		t.Errorf("%d deletes passed after the owner allowed 20", got)
	}
	w.Counts(t, 20, "deletes in the name of the owner, without those that he has seen", `SELECT count(*) - 15 FROM journal WHERE type = 'media.deleted' AND actor LIKE '%approvedBy%'`)
	w.Exec(t, `UPDATE approval_allowance SET remaining = 5, expires_at = now()`)
	if got := passes(by, ids[54:56]); got != 0 {
		t.Errorf("%d deletes passed after the hour", got)
	}
	w.Exec(t, `UPDATE connection_use SET window_start = now() - interval '1 hour'`)
	if got := passes(by, ids[54:56]); got != 2 {
		t.Errorf("%d of 2 deletes passed in the next window", got)
	}
}

// What an owner has allowed in advance ends when he is an owner no more.
func TestAllowance_EndsWithTheOwner(t *testing.T) {
	t.Parallel()
	former := runtimetest.Owner[:1] + "former@example.org" // events have the addresses of both owners alike
	w := newWorld(t)
	tenant := w.tenant(t, "studio")
	by := w.application(t, tenant)
	w.Change(t, tenant, func(s *account.Spec) { s.Owners = []string{runtimetest.Owner, former} })
	q := w.asked(t, by, "delete_media", object{"mediaId": w.sealed(t, tenant, "a.txt")})
	decision := approval.Decision{ID: uuid.MustParse(q.ApprovalID), AccountID: tenant.Account.ID, Revision: 1, Allow: true, By: former, Allowance: true}
	must(t, w.tools.Approvals.Decide(t.Context(), decision))
	w.carryOut(t, q)
	if result := call(t, w.tools, by, "delete_media", object{"mediaId": w.sealed(t, tenant, "b.txt")}); !strings.Contains(result.text(), `"deleted":true`) {
		t.Fatalf("with the allowance of an owner: %s", result.text())
	}
	w.Change(t, tenant, func(s *account.Spec) { s.Owners = []string{runtimetest.Owner} })
	w.tools = w.service(t) // another replica, which has the former owners in no cache
	w.asked(t, by, "delete_media", object{"mediaId": w.sealed(t, tenant, "c.txt")})
	w.Counts(t, 2, "deletes", `SELECT count(*) FROM journal WHERE type = 'media.deleted'`)
}
