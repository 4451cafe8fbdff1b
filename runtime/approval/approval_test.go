package approval_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/settings"
)

// The whole way of a delete: the call changes nothing, the owner sees the file and allows it, the service deletes it once, and the journal names
// both.
func TestDelete_WaitsForTheOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio")
	by := w.application(t, tenant)
	item := w.sealed(t, tenant, "holiday.txt")
	q := w.asked(t, by, "delete_media", object{"mediaId": item})
	if n := w.deleted(t); n != 0 {
		t.Fatalf("%d items were deleted without the owner", n)
	}
	if got := w.told(t, by, q); got.State != "waiting" || len(got.Results) != 1 || got.Results[0].MediaID != item || got.Results[0].Outcome != "waiting" {
		t.Errorf("while it waits, get_approval tells %+v", got)
	}
	if again := w.asked(t, by, "delete_media", object{"mediaId": item}); again.ApprovalID != q.ApprovalID {
		t.Errorf("the same call waits for another approval")
	}
	b, p := w.open(t, q)
	p.Says(t, http.StatusOK, "holiday.txt", "The studio", "test")
	if again := w.asked(t, by, "delete_media", object{"mediaId": item}); again.ApprovalID != q.ApprovalID {
		t.Errorf("after the owner has opened the page, the same call waits for another approval")
	}
	decide(b, p, "allow").Says(t, http.StatusOK, "You allowed this")
	w.run(t)
	if got := w.ended(t, by, q); got.Results[0].Outcome != "done" {
		t.Errorf("carried out: %+v", got)
	}
	w.Counts(t, 1, "deleted items", `SELECT count(*) FROM stored_item WHERE id = $1 AND deleted_at IS NOT NULL`, item)
	actor := w.Text(t, `SELECT actor FROM journal WHERE type = 'media.deleted'`)
	parsed := account.ParseActor(actor)
	if parsed.Kind != account.ActorLogin || parsed.Name != "test" || parsed.ApprovedBy != "o***@example.org" {
		t.Errorf("the journal names %s", actor)
	}
	// The page still names the file, and says that it can be restored.
	b.Get(q.path()).Says(t, http.StatusOK, "You allowed this", "Done", "holiday.txt", "It can be restored until")
	// A later delete waits again.
	other := w.asked(t, by, "delete_media", object{"mediaId": w.sealed(t, tenant, "b.txt")})
	if other.ApprovalID == q.ApprovalID {
		t.Error("a later call is in the approval of before")
	}
}

// A client that was told of a delete read the item from a cache that was not notified yet.
func TestGetApproval_WaitsForTheCachesOfWhatIsDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio")
	by := w.application(t, tenant)
	q := w.asked(t, by, "delete_media", object{"mediaId": w.sealed(t, tenant, "a.txt")})
	b, p := w.open(t, q)
	decide(b, p, "allow")
	w.run(t)
	w.ended(t, by, q)
	const silent = `SELECT count(*) FROM item_cache WHERE id = '01900000-0000-7000-8000-000000000001' AND NOT ended`
	w.Exec(t, `INSERT INTO item_cache (id, lease_ms) VALUES ('01900000-0000-7000-8000-000000000001', 50)`) // of a process that does not answer
	w.Counts(t, 1, "caches that do not answer", silent)
	if got := w.told(t, by, q); got.State != "done" {
		t.Errorf("get_approval tells %+v", got)
	}
	w.Counts(t, 0, "caches that may still serve the item", silent)
}

// Waiting calls of one connection are one question. What is denied is not done.
func TestDelete_WaitingCallsCollect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio")
	by, another := w.application(t, tenant), w.application(t, tenant)
	first := w.asked(t, by, "delete_media", object{"mediaId": w.sealed(t, tenant, "a.txt")})
	second := w.asked(t, by, "delete_media", object{"mediaId": w.sealed(t, tenant, "b.txt")})
	if first.ApprovalID != second.ApprovalID || !strings.HasPrefix(second.Summary, "delete 2 files") {
		t.Errorf("two calls are %+v and %+v", first, second)
	}
	if third := w.asked(t, another, "delete_media", object{"mediaId": w.sealed(t, tenant, "c.txt")}); third.ApprovalID == first.ApprovalID {
		t.Error("the calls of two connections are one question")
	}
	b, p := w.open(t, first)
	p.Says(t, http.StatusOK, "a.txt", "b.txt")
	// What comes after the owner has seen the page is another question.
	if later := w.asked(t, by, "delete_media", object{"mediaId": w.sealed(t, tenant, "d.txt")}); later.ApprovalID == first.ApprovalID {
		t.Error("a change was added to what the owner has seen")
	}
	decide(b, p, "deny").Says(t, http.StatusOK, "You denied this")
	w.run(t)
	// A model took the outcome of before, waiting, for a reason to wait.
	if got := w.told(t, by, first); got.State != "denied" || len(got.Results) != 2 || got.Results[0].Outcome != "denied" {
		t.Errorf("denied: %+v", got)
	}
	if n := w.deleted(t); n != 0 {
		t.Errorf("%d items were deleted", n)
	}
}

// Publishing and settings wait as deletes do.
func TestPublishAndSettings_WaitForTheOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio")
	by := w.application(t, tenant)
	w.run(t)
	item := w.sealed(t, tenant, "a.txt")
	draft := w.pages.Item(t, w.World, tenant, "draft.txt", "x", false).ID.String()
	for _, step := range []struct {
		what, tool string
		arguments  object
		done       string // a query that counts 1 once it is done
	}{
		{"a sealed item", "update_media", object{"mediaId": item, "access": "public", "caption": "For all"}, `SELECT count(*) FROM item WHERE access = 'public' AND caption = 'For all'`},
		{"a draft", "update_media", object{"mediaId": draft, "access": "public"}, `SELECT count(*) FROM item WHERE access = 'public' AND sealed_at IS NULL`},
		{"the seal of a public draft", "seal_media", object{"mediaId": draft}, `SELECT count(*) FROM item WHERE file_name = 'draft.txt' AND sealed_at IS NOT NULL`},
		{"the settings", "update_media_settings", object{"useWebP": true}, `SELECT count(*) FROM settings_tenant WHERE fields ->> 'useWebP' = 'true'`},
		{"a delete", "delete_media", object{"mediaId": item}, `SELECT count(*) FROM stored_item WHERE deleted_at IS NOT NULL`},
		{"the restore of a public item", "restore_media", object{"mediaId": item}, `SELECT 1 - count(*) FROM stored_item WHERE deleted_at IS NOT NULL`},
	} {
		before := w.QueryInt(t, step.done)
		q := w.asked(t, by, step.tool, step.arguments)
		if before != 0 || w.QueryInt(t, step.done) != 0 {
			t.Fatalf("%s: done without the owner", step.what)
		}
		b, p := w.open(t, q)
		decide(b, p, "allow")
		if got := w.ended(t, by, q); got.Results[0].Outcome != "done" {
			t.Fatalf("%s: %+v", step.what, got)
		}
		w.Counts(t, 1, step.what, step.done)
	}
	// What publishes nothing does not wait.
	private := w.pages.Item(t, w.World, tenant, "private.txt", "x", false).ID.String()
	for _, one := range []struct {
		tool      string
		arguments object
	}{{"seal_media", object{"mediaId": private}}, {"update_media", object{"mediaId": private, "caption": "c"}}} {
		if result := call(t, w.tools, by, one.tool, one.arguments); result.IsError || strings.Contains(result.text(), "approval_required") {
			t.Errorf("%s of a private item: %s", one.tool, result.text())
		}
	}
}

// The e-mail comes once in ten minutes, so the files page of an owner names all that waits for him, and nothing else.
func TestFilesPage_NamesWhatWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant, other := w.tenant(t, "studio"), w.tenant(t, "other")
	by, elsewhere := w.application(t, tenant), w.application(t, other)
	foreign := w.asked(t, elsewhere, "delete_media", object{"mediaId": w.sealed(t, other, "c.txt")})
	first := w.asked(t, by, "delete_media", object{"mediaId": w.sealed(t, tenant, "a.txt")})
	b, p := w.open(t, first)
	second := w.asked(t, by, "delete_media", object{"mediaId": w.sealed(t, tenant, "b.txt")}) // after the first was seen
	names := func(q question) bool {
		return strings.Contains(b.Get("/account/files?account="+tenant.Account.ID.String()).Text, "approval="+q.ApprovalID)
	}
	if !names(first) || !names(second) || names(foreign) {
		t.Errorf("the files page names the first: %t, the second: %t, that of another account: %t", names(first), names(second), names(foreign))
	}
	decide(b, p, "deny")
	w.Exec(t, `UPDATE approval SET expires_at = now() - interval '1 minute' WHERE id = '`+second.ApprovalID+`'`)
	if names(first) || names(second) {
		t.Error("the files page names what does not wait anymore")
	}
}

// Nobody is asked about settings that an administrator has pinned, or that cannot have the value: the call fails at once.
func TestSettings_NobodyIsAskedAboutWhatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio")
	by := w.application(t, tenant)
	must(t, w.Settings.Pin(t.Context(), tenant.Account.ID, settings.Layer{UseWebP: new(true)}, settings.Object{Name: "team-a/site", UID: "uid"}))
	for text, arguments := range map[string]object{
		"useWebP: pinned by MediaSettings team-a/site": {"useWebP": false, "thumbnailWidth": 200},
		"webpOutputQuality must be from 0 to 100":      {"webpOutputQuality": 101},
	} {
		if result := call(t, w.tools, by, "update_media_settings", arguments); !result.IsError || !strings.Contains(result.text(), text) {
			t.Errorf("%v: %s", arguments, result.text())
		}
	}
	w.Counts(t, 0, "approvals", `SELECT count(*) FROM approval`)
	w.asked(t, by, "update_media_settings", object{"thumbnailWidth": 200})
}

// The owners get one e-mail in ten minutes, whatever is asked for.
func TestEmails_OneInTenMinutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio")
	one, two := w.application(t, tenant), w.application(t, tenant)
	const emails = `SELECT count(*) FROM work WHERE kind = 'approval_email'`
	first := w.asked(t, one, "delete_media", object{"mediaId": w.sealed(t, tenant, "a.txt")})
	for n := range 4 {
		w.asked(t, []runtimetest.Option{one, two}[n%2], "delete_media", object{"mediaId": w.sealed(t, tenant, "b.txt")})
	}
	w.Counts(t, 1, "e-mails", emails)
	if payload := w.Text(t, `SELECT convert_from(payload, 'UTF8') FROM work WHERE kind = 'approval_email'`); !strings.Contains(payload, first.ApprovalID) || !strings.Contains(payload, runtimetest.Owner) || !strings.Contains(payload, `"displayName":"The studio"`) || strings.Contains(payload, "a.txt") {
		t.Errorf("the e-mail is %s", payload)
	}
	w.Exec(t, `UPDATE approval_notice SET told_at = now() - interval '10 minutes'`)
	w.asked(t, one, "delete_media", object{"mediaId": w.sealed(t, tenant, "c.txt")})
	w.Counts(t, 2, "e-mails", emails)
}

// A dry run told what would change, and not that it would wait for the owner.
func TestDryRun_SaysThatTheOwnerIsAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio")
	by := w.application(t, tenant)
	private, other, public := w.sealed(t, tenant, "a.txt"), w.sealed(t, tenant, "b.txt"), w.sealed(t, tenant, "c.txt")
	w.Exec(t, `UPDATE item SET access = 'public' WHERE id = '`+public+`'`)
	free := w.tenant(t, "free", func(s *account.Spec) { s.ToolPolicy.Approval.Publish = "" })
	unasked := w.application(t, free)
	elsewhere := w.sealed(t, free, "d.txt")
	for _, tt := range []struct {
		what      string
		by        runtimetest.Option
		arguments object
		waits     bool
	}{
		{"one item that becomes public", by, object{"mediaId": private, "access": "public"}, true},
		{"several items that become public", by, object{"mediaIds": []string{other, private}, "access": "public"}, true},
		{"several items of which one becomes public", by, object{"mediaIds": []string{public, other}, "access": "public", "caption": "For all"}, true},
		{"one that is public", by, object{"mediaId": public, "access": "public", "caption": "c"}, false},
		{"several that are public", by, object{"mediaIds": []string{public}, "access": "public", "caption": "d"}, false},
		{"another field", by, object{"mediaIds": []string{private, public}, "caption": "e"}, false},
		{"a change to private", by, object{"mediaId": private, "access": "private", "caption": "f"}, false},
		{"an account that asks for other changes", unasked, object{"mediaIds": []string{elsewhere}, "access": "public"}, false},
	} {
		dry := maps.Clone(tt.arguments)
		dry["dryRun"] = true
		before := w.QueryInt(t, `SELECT count(*) FROM approval_step`)
		result := call(t, w.tools, tt.by, "update_media", dry)
		var foreseen struct{ DryRun, ApprovalRequired bool }
		must(t, json.Unmarshal([]byte(result.text()), &foreseen))
		if result.IsError || !foreseen.DryRun || foreseen.ApprovalRequired != tt.waits || w.QueryInt(t, `SELECT count(*) FROM approval_step`) != before {
			t.Errorf("%s, as a dry run: %s", tt.what, result.text())
		}
		if result := call(t, w.tools, tt.by, "update_media", tt.arguments); result.IsError || strings.Contains(result.text(), "approval_required") != tt.waits {
			t.Errorf("%s: %s", tt.what, result.text())
		}
	}
}
