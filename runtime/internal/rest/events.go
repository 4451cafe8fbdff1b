package rest

import (
	"net/http"
	"strings"
	"time"

	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/journal"
)

// ListEvents answers GET /events.
func (a *API) ListEvents(w http.ResponseWriter, r *http.Request, params api.ListEventsParams) {
	q := journal.Request{After: deref(params.After), Types: eventTypes(deref(params.Types)), Limit: journal.DefaultLimit, Wait: time.Duration(deref(params.Wait)) * time.Second}
	if params.Limit != nil {
		q.Limit = *params.Limit
	}
	caller := principal(r)
	page, err := a.deps.Events.Read(r.Context(), caller, q)
	httpapi.FromContext(r.Context()).Waited = page.Waited
	if err == nil && q.Wait > 0 { // its credential may have ended while it waited
		err = a.deps.Auth.Reauthenticate(w, r)
	}
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	httpapi.WriteJSON(w, r, http.StatusOK, api.NewEventPage(page, caller.App))
}

// eventTypes returns the types of a list with commas; nil for an empty one.
func eventTypes(list string) (types []journal.Type) {
	if list == "" {
		return nil
	}
	for name := range strings.SplitSeq(list, ",") {
		types = append(types, journal.Type(name))
	}
	return types
}
