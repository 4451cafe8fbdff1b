package approval_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/purge"
)

// events returns the events of approvals that the key of an app reads, each as "type of its-approval: actor fields", where the approvals are
// named by their numbers in the order in which they came.
func (w *world) events(t *testing.T, of runtimetest.Tenant) (lines []string) {
	t.Helper()
	answer, err := w.tools.Send(t.Context(), http.MethodGet, "/events?types=approval.requested,approval.allowed,approval.denied,approval.expired", runtimetest.Key(of.Key))
	must(t, err)
	answer.MustBe(t, http.StatusOK, "read the events")
	var page api.EventPage
	must(t, json.Unmarshal(answer.Body, &page))
	var ids []uuid.UUID
	for _, event := range page.Events {
		if event.ApprovalId == nil || event.Actor == nil || event.MediaId != nil || event.App != account.DefaultApp {
			t.Fatalf("an event is %s", answer.Body)
		}
		if !slices.Contains(ids, *event.ApprovalId) {
			ids = append(ids, *event.ApprovalId)
		}
		by := event.Actor
		line := strings.TrimPrefix(string(event.Type), "approval.") + " " + string(rune('1'+slices.Index(ids, *event.ApprovalId))) + ": " + string(by.Kind) + " " + by.Name + " " + by.Email
		if asker := by.AskedBy; asker != nil {
			line += " (" + strings.TrimSpace(string(asker.Kind)+" "+asker.Name+" "+asker.Email) + ")"
			if asker.Id == "" {
				t.Errorf("the asker has no id: %s", answer.Body)
			}
		}
		lines = append(lines, strings.Join(strings.Fields(line+" "+strings.Join(event.Fields, ",")), " "))
	}
	return lines
}

// A question was in no journal, and neither was the owner who had denied it: only changes that were made named who had allowed them.
func TestJournal_TellsTheQuestionAndItsAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio")
	by := w.application(t, tenant)
	first := w.sealed(t, tenant, "a.txt")
	q := w.asked(t, by, "delete_media", object{"mediaId": first})
	w.asked(t, by, "delete_media", object{"mediaId": first})                                            // again, which asks nothing new
	w.asked(t, by, "update_media", object{"mediaId": w.sealed(t, tenant, "b.txt"), "access": "public"}) // is added to it
	b, p := w.open(t, q)
	decide(b, p, "allow")
	decide(b, p, "deny") // too late
	key := w.asked(t, runtimetest.Key(tenant.Key), "update_media_settings", object{"useWebP": true})
	decide(b, b.Get(key.path()), "deny")
	late := w.asked(t, by, "delete_media", object{"mediaId": w.sealed(t, tenant, "c.txt")})
	batches := purge.Batches{Size: 1}
	expired, err := approval.Expire(t.Context(), w.Store.Approvals, batches, time.Now())
	must(t, err)
	w.Exec(t, `UPDATE approval SET expires_at = now() - interval '1 second' WHERE id = '`+late.ApprovalID+`'`)
	inTime, err := approval.Expire(t.Context(), w.Store.Approvals, batches, time.Now())
	must(t, err)
	again, err := approval.Expire(t.Context(), w.Store.Approvals, batches, time.Now())
	must(t, err)
	if expired != 0 || inTime != 1 || again != 0 {
		t.Errorf("%d, %d and %d approvals have expired", expired, inTime, again)
	}
	if got := w.told(t, by, late); got.State != "expired" || got.Results[0].Outcome != "expired" {
		t.Errorf("after the purge get_approval tells %+v", got)
	}
	const owner, application = "o***@example.org", "login test o***@example.org"
	want := []string{
		"requested 1: " + application + " delete_media",
		"requested 1: " + application + " update_media",
		"allowed 1: page " + owner + " (" + application + ") delete_media,update_media",
		"requested 2: key update_media_settings",
		"denied 2: page " + owner + " (key) update_media_settings",
		"requested 3: " + application + " delete_media",
		"expired 3: service (" + application + ") delete_media",
	}
	if got := w.events(t, tenant); !slices.Equal(got, want) {
		t.Errorf("the journal tells\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	b.Get("/account/activity").Says(t, http.StatusOK, "Owner asked: delete", "Request allowed: delete, make public", "Request denied: change the media settings", "Request expired: delete", "asked by", "approval="+late.ApprovalID)
	// Whole addresses, if the account says so.
	w.Change(t, tenant, func(s *account.Spec) { s.FullAddresses = true })
	whole := w.asked(t, w.application(t, tenant), "delete_media", object{"mediaId": first})
	decide(b, b.Get(whole.path()), "deny")
	got := w.events(t, tenant)
	if last := got[len(got)-1]; last != "denied 4: page "+runtimetest.Owner+" (login test "+runtimetest.Owner+") delete_media" {
		t.Errorf("with whole addresses the journal tells %q", last)
	}
}

// Without a journal there is no event, and a question that is not asked after all leaves none.
func TestJournal_TellsNoQuestionThatIsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	silent, tenant := w.tenant(t, "silent", func(s *account.Spec) { s.Journal = 0 }), w.tenant(t, "studio")
	q := w.asked(t, w.application(t, silent), "delete_media", object{"mediaId": w.sealed(t, silent, "a.txt")})
	b, p := w.open(t, q)
	decide(b, p, "deny")
	by := w.application(t, tenant)
	for range approval.MaxWaiting {
		one := w.asked(t, by, "delete_media", object{"mediaId": w.sealed(t, tenant, "b.txt")})
		w.open(t, one)
	}
	if result := call(t, w.tools, by, "delete_media", object{"mediaId": w.sealed(t, tenant, "c.txt")}); !result.IsError {
		t.Fatalf("one more than may wait: %s", result.text())
	}
	w.Counts(t, 0, "events without a journal", `SELECT count(*) FROM journal WHERE account_id = $1`, silent.Account.ID)
	w.Counts(t, approval.MaxWaiting, "events of questions", `SELECT count(*) FROM journal WHERE account_id = $1 AND type LIKE 'approval.%'`, tenant.Account.ID)
	w.Exec(t, `UPDATE account SET closed_at = now(), erase_after = now(), erasing_at = now() WHERE id = '`+tenant.Account.ID.String()+`'`)
	w.Exec(t, `UPDATE approval SET expires_at = now() - interval '1 second'`)
	must(t, check.ErrorOf(approval.Expire(t.Context(), w.Store.Approvals, purge.Batches{Size: 10}, time.Now())))
	w.Counts(t, approval.MaxWaiting, "events of an account that is erased", `SELECT count(*) FROM journal WHERE account_id = $1 AND type LIKE 'approval.%'`, tenant.Account.ID)
}
