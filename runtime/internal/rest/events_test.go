package rest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/runtimetest"
)

// events reads events until the last one has this type. Transactions in the background, such as those of a lease, can delay them.
func (rt *runtime) events(t *testing.T, query, last string, credential option) (events []map[string]any, next string) {
	t.Helper()
	wait.Until(t, "an event "+last, func() bool {
		got := rt.do(t, http.MethodGet, "/events?"+query, credential)
		got.MustBe(t, http.StatusOK, "%s", query)
		var page struct {
			Events []map[string]any
			Next   string
		}
		must(t, json.Unmarshal(got.Body, &page))
		events, next = page.Events, page.Next
		return len(events) > 0 && events[len(events)-1]["type"] == last
	})
	return events, next
}

func TestEvents_HaveTheDocumentOfTheReference(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t, func(o *options) { o.Auth.Resource = baseURL + "/mcp" })
	w.journal(t, one)
	item := rt.sealed(t, one.Key, filePart("a.txt", []byte("hello")), field("group", "press"))
	session := bearer(w.Session(t, one, auth.ScopeRead, auth.ScopeWrite))
	rt.do(t, http.MethodPatch, "/media/"+item.MediaId.String(), session, text(`{"caption": "c", "group": ""}`), header("Content-Type", "application/json")).MustBe(t, http.StatusOK, "update")
	must(t, check.ErrorOf(testenv.Connections(t, w.Database.DatabaseURL).Exec(t.Context(), `INSERT INTO journal (account_id, type, actor, fields) VALUES
		($1, 'usage.threshold', '{"kind":"service"}', '{80}'), ($1, 'account.suspended', '', '{}')`, one.Account.ID)))

	events, _ := rt.events(t, "limit=10", "account.suspended", session)
	if len(events) != 6 {
		t.Fatalf("the events are %v", events)
	}
	app, id := account.DefaultApp, item.MediaId.String()
	byKey := map[string]any{"kind": "key", "id": one.KeyID.String()}
	for i, want := range []map[string]any{
		{"type": "media.uploaded", "mediaId": id, "app": app, "sequence": 1.0, "group": "press", "actor": byKey},
		{"type": "media.sealed", "mediaId": id, "app": app, "sequence": 2.0, "group": "press", "actor": byKey},
		{"type": "application.authorized"},
		{"type": "media.updated", "mediaId": id, "app": app, "sequence": 3.0, "fields": []any{"caption", "group"}},
		{"type": "usage.threshold", "actor": map[string]any{"kind": "service"}, "percent": 80.0},
		{"type": "account.suspended"},
	} {
		got := events[i]
		if at, err := time.Parse("2006-01-02T15:04:05.999Z", fmt.Sprint(got["time"])); err != nil || !at.Equal(at.Truncate(time.Millisecond)) {
			t.Errorf("event %d has the time %v: %v", i, got["time"], err)
		}
		var epoch, number int
		if n, err := fmt.Sscanf(fmt.Sprint(got["id"]), "%d-%d", &epoch, &number); n != 2 || err != nil {
			t.Errorf("event %d has the id %v", i, got["id"])
		}
		if i == 2 || i == 3 { // a login
			actor, _ := got["actor"].(map[string]any)
			if actor["kind"] != "login" || actor["id"] == "" || actor["email"] != "o***@example.org" || actor["name"] == "" {
				t.Errorf("the actor of a login is %v", actor)
			}
			delete(got, "actor")
		}
		delete(got, "time")
		delete(got, "id")
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("event %d is %v, want %v", i, got, want)
		}
	}
	got := rt.do(t, http.MethodGet, "/events", session)
	if cache := got.Header.Get("Cache-Control"); !strings.Contains(cache, "no-store") {
		t.Errorf("Cache-Control is %q", cache)
	}
	if got.Header.Get("RateLimit-Policy") != rt.do(t, http.MethodGet, "/media/get", session).Header.Get("RateLimit-Policy") {
		t.Error("the rate limits are others than those of a list")
	}
	rt.do(t, http.MethodHead, "/events", session).Is(t, http.StatusOK, "HEAD")
}

func TestEvents_ArePagedAndFilteredByType(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	w.journal(t, one)
	first, second := rt.sealed(t, one.Key, filePart("a", []byte("a"))), rt.sealed(t, one.Key, filePart("b", []byte("b")))
	rt.do(t, http.MethodDelete, "/media/delete/"+first.MediaId.String(), key(one.Key)).MustBe(t, http.StatusOK, "delete")
	_, end := rt.events(t, "limit=1000", "media.deleted", key(one.Key))
	var ids []string
	for query := "types=media.sealed,media.deleted&limit=1"; ; {
		page := decode[api.EventPage](t, rt.do(t, http.MethodGet, "/events?"+query, key(one.Key)))
		for _, event := range page.Events {
			ids = append(ids, string(event.Type)+" "+event.MediaId.String())
		}
		if query = "types=media.sealed,media.deleted&limit=1&after=" + page.Next; !page.More {
			break
		}
	}
	if want := fmt.Sprintf("[media.sealed %s media.sealed %s media.deleted %s]", first.MediaId, second.MediaId, first.MediaId); fmt.Sprint(ids) != want {
		t.Errorf("the events are %v, want %s", ids, want)
	}
	if page := decode[api.EventPage](t, rt.do(t, http.MethodGet, "/events?after="+end, key(one.Key))); len(page.Events) > 0 || page.More {
		t.Errorf("after the end are %+v", page)
	}
	rt.upload(t, one.Key, filePart("c", []byte("c")))
	events, _ := rt.events(t, "wait=60&after="+end, "media.uploaded", key(one.Key))
	if len(events) != 1 {
		t.Errorf("%d events after the end, want 1", len(events))
	}
}

func TestEvents_SayWhatIsWrong(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	if detail := rt.do(t, http.MethodGet, "/events", key(one.Key)).rejected(t, http.StatusConflict, "Conflict"); !strings.Contains(detail, "spec.journal") {
		t.Errorf("without a journal: %s", detail)
	}
	w.journal(t, one)
	for query, says := range map[string]string{
		"after=x":             "after must be next of an answer",
		"after=NOW":           "after must be next of an answer",
		"types=media.moved":   `no event type \"media.moved\"`,
		"types=media.sealed,": "no event type",
		"limit=0":             "limit must be from 1 to 1000",
		"limit=1001":          "limit must be from 1 to 1000",
		"limit=x":             "limit must be an integer",
		"wait=-1":             "wait must be from 0 to 60",
		"wait=61":             "wait must be from 0 to 60",
		"wait=0.5":            "wait must be an integer",
		"page=1":              "unknown parameter",
		"limit=1&limit=2":     "limit must be sent once",
	} {
		got := rt.do(t, http.MethodGet, "/events?"+query, key(one.Key))
		got.rejected(t, http.StatusBadRequest, "Bad Request")
		if !strings.Contains(string(got.Body), says) {
			t.Errorf("%s: %s, want %q", query, got.Body, says)
		}
	}
	for _, query := range []string{"", "after=&types=&limit=&wait=", "after=now"} {
		rt.do(t, http.MethodGet, "/events?"+query, key(one.Key)).Is(t, http.StatusOK, "%q", query)
	}
	cursor := decode[api.EventPage](t, rt.do(t, http.MethodGet, "/events?after=now", key(one.Key))).Next
	must(t, check.ErrorOf(w.Store.Installations.Identity(t.Context())))
	must(t, check.ErrorOf(testenv.Connections(t, w.Database.DatabaseURL).Exec(t.Context(), `UPDATE installation SET epoch = epoch + 1`)))
	got := rt.do(t, http.MethodGet, "/events?after="+cursor, key(one.Key))
	got.rejected(t, http.StatusGone, "Gone")
	var failed api.Error
	must(t, json.Unmarshal(got.Body, &failed))
	if failed.Code != api.ErrorCodeGone || !strings.Contains(failed.Detail, "after=now") {
		t.Errorf("a cursor of before a restore: %+v", failed)
	}
	rt.do(t, http.MethodPost, "/events", key(one.Key)).rejected(t, http.StatusMethodNotAllowed, "Method Not Allowed")
}

func TestEvents_WaitersAreBounded(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	w.journal(t, one)
	cursor := decode[api.EventPage](t, rt.do(t, http.MethodGet, "/events?after=now", key(one.Key))).Next
	const waiting = 8 // of the harness
	ended := make(chan runtimetest.Answer, waiting)
	for range waiting {
		go func() {
			got, err := rt.Send(t.Context(), http.MethodGet, "/events?wait=60&after="+cursor, key(one.Key))
			if err != nil {
				t.Error(err)
			}
			ended <- got
		}()
	}
	wait.Until(t, "all of them wait", func() bool {
		return strings.Contains(string(rt.admin(t, "/metrics").Body), fmt.Sprintf("mediastack_events_waiting %d\n", waiting))
	})
	got := rt.do(t, http.MethodGet, "/events?wait=1&after="+cursor, key(one.Key))
	got.rejected(t, http.StatusTooManyRequests, "Too Many Requests")
	if got.Header.Get("Retry-After") == "" {
		t.Error("the answer has no Retry-After")
	}
	rt.do(t, http.MethodGet, "/events?after="+cursor, key(one.Key)).Is(t, http.StatusOK, "a request that does not wait")
	rt.Events.Drain() // as at the end of the process
	for range waiting {
		wait.Receive(t, "the end of a wait", ended).Is(t, http.StatusOK, "a request that waits")
	}
	wait.Until(t, "the log has the waits", func() bool { return strings.Count(rt.Logs.String(), `"waited":`) == waiting })
}

// A key that is revoked while its request waits reads nothing of what comes after that.
func TestEvents_AreNotForACredentialThatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	w.journal(t, one)
	cursor := decode[api.EventPage](t, rt.do(t, http.MethodGet, "/events?after=now", key(one.Key))).Next
	ended := make(chan runtimetest.Answer, 1)
	go func() {
		got, err := rt.Send(t.Context(), http.MethodGet, "/events?wait=60&after="+cursor, key(one.Key))
		if err != nil {
			t.Error(err)
		}
		ended <- got
	}()
	wait.Until(t, "the request waits", func() bool {
		return strings.Contains(string(rt.admin(t, "/metrics").Body), "mediastack_events_waiting 1\n")
	})
	_, _, err := w.Registry.IssueKey(t.Context(), one.App.ID, 2, 0)
	must(t, err)
	must(t, check.ErrorOf(testenv.Connections(t, w.Database.DatabaseURL).Exec(t.Context(), `INSERT INTO journal (account_id, app_id, type, actor) VALUES ($1, $2, 'media.sealed', '')`, one.Account.ID, one.App.ID)))
	wait.Receive(t, "the answer", ended).Is(t, http.StatusUnauthorized, "with a revoked key")
}
