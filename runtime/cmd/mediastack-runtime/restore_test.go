package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/consistency"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/upload"
)

// restored is a tenant of a database that is restored to an earlier time, while its object store
// is not.
type restored struct {
	*runtimetest.Env
	t *testing.T
	mediatest.Replica
	p      account.Principal
	age    time.Duration // of what is uploaded
	writes *atomic.Int64
	stores []string // flags
}

// open connects to the stores.
func (r *restored) open(database string, access testenv.S3Access) {
	r.t.Helper()
	r.Env = runtimetest.NewWith(r.t, database, access)
	r.stores = storesOf(database, access)
	r.Replica = mediatest.NewReplica(r.t, runtimetest.UploadConfig(), upload.Deps{Store: r.Store.Uploads, Objects: r.Objects, Settings: r.Settings, Now: func() time.Time { return time.Now().Add(-r.age) }, Log: slog.New(slog.DiscardHandler)}, r.Store.Items)
}

// running returns the item of an upload whose bytes are stored, and which is not committed.
func (r *restored) running(text string) media.Item {
	r.t.Helper()
	at := time.Now().Add(-r.age)
	item := media.Item{ID: uuid.Must(uuid.NewV7()), AccountID: r.p.Account.ID, AppID: r.p.App.ID, Access: media.Private, CreatedAt: at}
	item.Objects = media.Objects{{Variant: media.Original, Key: media.ObjectKey(item.ID, media.Original), Bytes: int64(len(text))}}
	must(r.t, r.Store.Uploads.OpenUpload(r.t.Context(), item.ID, media.ScopeOf(r.p), int64(len(text)), at))
	must(r.t, r.Objects.Put(r.t.Context(), r.p.Account.Bucket, item.File().Key, "text/plain", strings.NewReader(text), int64(len(text))))
	return item
}

func (r *restored) draft(text string) media.Item {
	r.t.Helper()
	item, err := runtimetest.Upload(r.t.Context(), r.Uploads, r.p, strings.NewReader(text), media.Fields{MimeType: "text/plain"})
	must(r.t, err)
	return item
}

func (r *restored) seal(item media.Item) media.Item {
	r.t.Helper()
	sealed, err := r.Items.Seal(r.t.Context(), r.p, item.ID)
	must(r.t, err)
	return sealed
}

// row describes what the API says about an item: sealed, draft or gone.
func (r *restored) row(item media.Item) string {
	r.t.Helper()
	found, err := r.Items.Get(r.t.Context(), r.p, item.ID)
	switch {
	case fault.Is(err, fault.NotFound):
		return "gone"
	case err != nil:
		r.t.Fatal(err)
	case found.SealedAt == nil:
		return "draft"
	}
	return "sealed"
}

// file returns the content of an item's object; "gone" without one.
func (r *restored) file(item media.Item) string {
	r.t.Helper()
	body, err := r.Objects.Open(r.t.Context(), r.p.Account.Bucket, item.File().Key, 0, -1)
	if fault.Is(err, fault.NotFound) {
		return "gone"
	}
	must(r.t, err)
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(body)
	must(r.t, err)
	return string(text)
}

// layers sets the tenant's and the pinned width of thumbnails.
func (r *restored) layers(tenant, pinned int) {
	r.t.Helper()
	id := r.p.Account.ID
	object := settings.Object{Name: "team/pins", UID: "pins"}
	must(r.t, r.Settings.Unpin(r.t.Context(), object.UID))
	must(r.t, check.ErrorOf(r.Settings.Update(r.t.Context(), id, account.Actor{}, settings.Layer{ThumbnailWidth: &tenant})))
	must(r.t, r.Settings.Pin(r.t.Context(), id, settings.Layer{ThumbnailHeight: &pinned}, object))
}

// run runs a command.
func (r *restored) run(args ...string) (code int, lines []string, stderr string) {
	r.t.Helper()
	code, out, stderr := call(r.t.Context(), append(args, r.stores...)...)
	return code, strings.Split(strings.TrimSpace(out), "\n"), stderr
}

// lastOf decodes the last line.
func lastOf[T any](t *testing.T, lines []string) (last T) {
	t.Helper()
	must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	return last
}

// This is the table in docs/guides/backup-and-restore.md: what a restore does to each change after the backup.
func TestRestore_OutcomeOfEveryChangeAfterTheBackup(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	database := testenv.Database(t, server)
	r := &restored{t: t, writes: new(atomic.Int64), age: 48 * time.Hour}
	access := testenv.S3Proxy(t, testenv.S3(t), func(_ http.ResponseWriter, request *http.Request) bool {
		if request.Method != http.MethodGet && request.Method != http.MethodHead {
			r.writes.Add(1)
		}
		return false
	})
	r.open(database, access)
	r.p = r.Principal(t, r.Tenant(t, account.Spec{Name: "demo", MaxStorage: 1 << 30, MaxUploadSize: 1 << 30, Undo: account.Undo{Window: 24 * time.Hour, For: account.UndoAgents}}))

	kept, deleted := r.seal(r.draft("kept")), r.seal(r.draft("deleted"))
	sealedAfter, expired := r.draft("sealed after"), r.draft("expired")
	committed := r.running("running")
	restoredAfter := r.seal(r.draft("restored after"))
	_, err := r.Items.Delete(t.Context(), r.p, restoredAfter.ID, media.DeleteOptions{Agent: true})
	must(t, err)
	statement(t, database, `UPDATE stored_item SET deleted_at = deleted_at - interval '23 hours', restorable_until = restorable_until - interval '23 hours' WHERE deleted_at IS NOT NULL`)
	r.layers(100, 110)
	must(t, r.Guard().Beat(t.Context()))
	server.Stop()
	restore := testenv.SaveData(t, server) // the backup
	server.Start()
	r.open(database, access)

	r.seal(sealedAfter)
	must(t, runtimetest.DeleteItem(t.Context(), r.Items, r.p, deleted.ID))
	must(t, check.ErrorOf(r.Items.Restore(t.Context(), r.p, restoredAfter.ID)))
	created := r.seal(r.draft("created"))
	must(t, r.Store.Uploads.CommitUpload(t.Context(), committed, account.Actor{}))
	r.seal(committed)
	r.layers(200, 210)
	for range 2 {
		must(t, r.Guard().Beat(t.Context()))
	}
	server.Stop()
	restore()
	server.Start()
	r.open(database, access)

	// Nothing is removed before an administrator has confirmed the restore.
	before := r.writes.Load()
	if code, lines, stderr := r.run("purge"); code != exitActionRequired || lastOf[media.PurgeSummary](t, lines).Held == "" || !strings.Contains(stderr, "heartbeat is 1") || !strings.Contains(stderr, "heartbeat 3") {
		t.Errorf("purge before the resume: %d %s %s", code, lines, stderr)
	}
	if code, _, stderr := r.run("check", "--all", "--repair"); code != exitActionRequired || !strings.Contains(stderr, "resume-after-restore") {
		t.Errorf("check --repair before the resume: %d %s", code, stderr)
	}
	code, lines, stderr := r.run("resume-after-restore")
	if code != 0 || len(lines) != 3 {
		t.Fatalf("resume-after-restore: %d %s %s", code, lines, stderr)
	}
	var report consistency.RestoreReport
	must(t, json.Unmarshal([]byte(lines[1]), &report))
	if report.Items != 5 || report.ExpiredDrafts != 2 || report.MissingOriginals != 1 || report.ObjectsWithoutRow != 1 || report.BytesWithoutRow != int64(len("created")) || report.Keys != 1 || len(report.Problems) != 0 {
		t.Errorf("the report is %s", lines[1])
	}
	if survey := lines[0]; !strings.Contains(survey, `"rowHeartbeat":1`) || !strings.Contains(survey, `"markersHeartbeat":3`) || !strings.Contains(survey, "the database was restored") {
		t.Errorf("the survey is %s", survey)
	}
	if code, lines, _ := r.run("purge"); code != exitActionRequired || lastOf[media.PurgeSummary](t, lines).Held == "" {
		t.Errorf("purge after the report: %d %s", code, lines)
	}
	if n := r.writes.Load() - before; n != 0 {
		t.Errorf("%d writes to the object store before the resume", n)
	}

	code, lines, stderr = r.run("resume-after-restore", "--confirm")
	if confirmed := lastOf[resumedLine](t, lines); code != 0 || !confirmed.Confirmed || confirmed.Epoch != 2 || confirmed.Heartbeat != 4 {
		t.Fatalf("resume-after-restore --confirm: %d %s %s", code, lines, stderr)
	}
	code, lines, stderr = r.run("purge")
	if summary := lastOf[media.PurgeSummary](t, lines); code != 0 || summary.DraftsPurged != 0 || summary.UploadsExpired != 1 || summary.RemovalsDone != 0 || summary.Held != "" {
		t.Errorf("purge after the resume: %d %s %s", code, lines, stderr)
	}
	for _, outcome := range []struct {
		change    string
		item      media.Item
		row, file string
	}{
		{"nothing", kept, "sealed", "kept"},
		{"sealed after the backup", sealedAfter, "draft", "sealed after"},
		{"a draft that has expired", expired, "draft", "expired"},
		{"deleted after the backup", deleted, "sealed", "gone"},
		{"restored after the backup", restoredAfter, "gone", "restored after"},
		{"created after the backup", created, "gone", "created"},
		{"its upload was running", committed, "gone", "running"},
	} {
		if row, file := r.row(outcome.item), r.file(outcome.item); row != outcome.row || file != outcome.file {
			t.Errorf("%s: the row is %s and the file %s, want %s and %s", outcome.change, row, file, outcome.row, outcome.file)
		}
	}
	if left := r.QueryInt(t, `SELECT (extract(epoch FROM restorable_until - now()) / 3600)::int FROM stored_item WHERE deleted_at IS NOT NULL`); left != 24 {
		t.Errorf("a deleted item can be restored for %d hours", left)
	}
	must(t, check.ErrorOf(r.Items.Restore(t.Context(), r.p, restoredAfter.ID)))
	layers, err := r.Settings.Get(t.Context(), r.p.Account.ID)
	if err != nil || *layers.Tenant.ThumbnailWidth != 100 || *layers.Pinned.ThumbnailHeight != 110 {
		t.Errorf("the settings are %+v, %v", layers, err)
	}

	r.laterPurge(sealedAfter, expired)
	r.repair(created, committed)
	if r.row(kept) != "sealed" || r.file(kept) != "kept" {
		t.Error("a sealed item was lost")
	}
}

// laterPurge seals a draft again and runs the purge when the drafts have had their full time.
func (r *restored) laterPurge(sealedAgain, expired media.Item) {
	r.t.Helper()
	r.seal(sealedAgain)
	for _, purge := range []struct {
		in     time.Duration
		purged int
	}{{23 * time.Hour, 0}, {25 * time.Hour, 1}} {
		purger, err := media.NewPurger(media.PurgeConfig{DraftConfig: media.DraftConfig{DraftTTL: 24 * time.Hour}, UploadGrace: 5 * time.Minute, MaxAttempts: 3, RemovalConfig: media.RemovalConfig{BatchSize: 100, MaxBackoff: time.Hour}},
			media.PurgeDeps{Store: r.Store.Items, Tasks: r.Store.Tasks, Objects: r.Objects, Guard: r.Guard(), Now: func() time.Time { return time.Now().Add(purge.in) }, Log: slog.New(slog.DiscardHandler)})
		must(r.t, err)
		if summary, err := purger.Run(r.t.Context()); err != nil || summary.DraftsPurged != purge.purged {
			r.t.Errorf("a purge in %s: %+v, %v", purge.in, summary, err)
		}
	}
	if r.row(expired) != "gone" || r.file(expired) != "gone" {
		r.t.Error("the draft is not purged after its full time")
	}
	if r.row(sealedAgain) != "sealed" || r.file(sealedAgain) == "gone" {
		r.t.Error("the item that was sealed again is lost")
	}
}

// repair removes objects whose rows the restore lost only on request.
func (r *restored) repair(unknown ...media.Item) {
	r.t.Helper()
	code, lines, stderr := r.run("check", "--all", "--repair", "--grace=0s")
	found := strings.Count(strings.Join(lines, "\n"), `"kind":"`+string(consistency.UnknownAfterRestore)+`"`)
	if code != exitActionRequired || found != len(unknown) {
		r.t.Errorf("check --repair: %d %s %s", code, lines, stderr)
	}
	for _, item := range unknown {
		if r.file(item) == "gone" {
			r.t.Errorf("check --repair removed %s", item.ID)
		}
	}
	if _, lines, _ := r.run("check", "--all", "--repair", "--remove-unknown-after-restore"); r.file(unknown[0]) == "gone" {
		r.t.Errorf("a repair removed an object within the grace of the resume: %s", lines)
	}
	r.run("check", "--all", "--repair", "--grace=0s", "--remove-unknown-after-restore")
	if slices.ContainsFunc(unknown, func(item media.Item) bool { return r.file(item) != "gone" }) {
		r.t.Error("check --repair --remove-unknown-after-restore left an object")
	}
	if code, _, stderr := r.run("check", "--account="+uuid.NewString(), "--remove-unknown-after-restore"); code != exitUsage || !strings.Contains(stderr, "needs --repair") {
		r.t.Errorf("the flag without --repair: %d %s", code, stderr)
	}
}
