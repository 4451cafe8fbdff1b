package go_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	mediastack "mediastack.dev/clients/go"
	"mediastack.dev/clients/go/api"
	"mediastack.dev/hack/test/clients/clienttest"
)

// followed are the events of an item, as their types, until one of this type. stored is the cursor that a caller stores.
func followed(t *testing.T, client *mediastack.Client, stored *string, item string, last api.EventType) (types []api.EventType) {
	t.Helper()
	for page, err := range client.Events(t.Context(), mediastack.EventOptions{After: *stored, Limit: 2}) {
		must(t, err)
		for _, event := range page.Events {
			if event.MediaID != nil && *event.MediaID == item {
				types = append(types, event.Type)
			}
		}
		*stored = page.Next
		if slices.Contains(types, last) {
			return types
		}
	}
	return types
}

func testEvents(t *testing.T, f *fixture) {
	now, err := f.client.ListEvents(t.Context(), mediastack.EventOptions{After: mediastack.EventsNow})
	must(t, err)
	stored := now.Next
	item, err := f.client.Upload(t.Context(), strings.NewReader("a text"), mediastack.UploadOptions{Seal: true, Group: "events"})
	must(t, err)
	if types := followed(t, f.client, &stored, item.MediaID, api.MediaSealed); !slices.Equal(types, []api.EventType{api.MediaUploaded, api.MediaSealed}) {
		t.Errorf("the first caller has read %v", types)
	}
	// Another caller goes on from the cursor, while the service is away, loses an answer, and is not found by its proxy.
	_, err = f.client.Update(t.Context(), item.MediaID, mediastack.Patch{"caption": "c"})
	must(t, err)
	for _, fault := range []clienttest.Fault{{Status: http.StatusServiceUnavailable, RetryAfter: "7", Count: 4}, {BreakAnswer: true, Count: 4}, {Status: http.StatusBadGateway, Body: "<html>", Count: 2}, {Status: http.StatusTooManyRequests, RetryAfter: "90", Count: 1}} {
		fault.Method, fault.Path = http.MethodGet, "/events"
		f.Front.Plan(fault)
	}
	f.waits = nil
	another := f.with(t, mediastack.APIKey(f.APIKey))
	if types := followed(t, another, &stored, item.MediaID, api.MediaUpdated); !slices.Equal(types, []api.EventType{api.MediaUpdated}) {
		t.Errorf("the next caller has read %v", types)
	}
	if len(f.waits) < 11 || f.waits[0] != 7*time.Second || !slices.Contains(f.waits, 90*time.Second) {
		t.Errorf("the waits are %v", f.waits)
	}
	_, err = f.client.Delete(t.Context(), item.MediaID)
	must(t, err)
	page, err := f.client.ListEvents(t.Context(), mediastack.EventOptions{After: stored, Types: []api.EventType{api.MediaDeleted, api.MediaRestored}, WaitSeconds: 60})
	must(t, err)
	if len(page.Events) != 1 || page.Events[0].Type != api.MediaDeleted || *page.Events[0].Group != "events" || page.Events[0].Actor.Kind != api.EventActorKindKey || page.More {
		t.Errorf("the page is %+v", page)
	}
	_, err = f.client.ListEvents(t.Context(), mediastack.EventOptions{After: "x"})
	checkError(t, err, api.ErrorCodeInvalidRequest, http.StatusBadRequest)
	ctx, stop := context.WithCancel(t.Context())
	for page, err := range f.client.Events(ctx, mediastack.EventOptions{After: mediastack.EventsNow}) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("an iteration whose context ends: %v", err)
			}
			break
		}
		if page.Next == "" {
			t.Error("a page has no cursor")
		}
		stop()
	}
	stop()
}

// What does not pass ends an iteration. One that waits for an absence of the service continues after the last cursor.
func TestEvents_EndWhereEventsAreMissing(t *testing.T) {
	t.Parallel()
	var queries []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.Query().Encode())
		w.Header().Set("Content-Type", "application/json")
		if len(queries) == 3 {
			w.WriteHeader(http.StatusGone)
			_, _ = w.Write([]byte(`{"error": "Gone", "code": "gone", "detail": "events have expired"}`))
			return
		}
		_ = json.NewEncoder(w).Encode(api.EventPage{Events: []api.Event{}, Next: fmt.Sprint("cursor", len(queries))})
	}))
	t.Cleanup(server.Close)
	client, err := mediastack.New(server.URL, mediastack.APIKey("msk_x"), mediastack.Options{})
	must(t, err)
	var next []string
	for page, err := range client.Events(t.Context(), mediastack.EventOptions{Types: []api.EventType{api.MediaSealed, api.MediaDeleted}}) {
		if err == nil {
			next = append(next, page.Next)
			continue
		}
		var gone *mediastack.EventsGoneError
		if !errors.As(err, &gone) || gone.Err.Detail != "events have expired" || !errors.As(err, new(*mediastack.Error)) || !strings.Contains(err.Error(), "410 gone: events have expired") {
			t.Errorf("it ended with %v", err)
		}
	}
	if !slices.Equal(next, []string{"cursor1", "cursor2"}) {
		t.Errorf("the cursors are %v", next)
	}
	const types = "types=media.sealed%2Cmedia.deleted&wait=30"
	if want := []string{types, "after=cursor1&" + types, "after=cursor2&" + types}; !slices.Equal(queries, want) {
		t.Errorf("the requests are %q, want %q", queries, want)
	}
}
