package rest

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// errNoOwnUploads is the fault of a signature that is no capability: nothing records which uploads it created, and
// its holders must not see those of each other.
var errNoOwnUploads = fault.New(fault.Forbidden, "this upload signature does not list or end uploads: request one with a restriction other than the group, such as count, or continue an upload by its URL")

// capabilityOf returns the capability by which a request is restricted to uploads of its own; nil for a key or a
// login.
func capabilityOf(r *http.Request) (*upload.Capability, error) {
	identity := auth.FromContext(r.Context())
	if identity.Signed && identity.Capability == nil {
		return nil, errNoOwnUploads
	}
	return identity.Capability, nil
}

// ListUploads answers GET /media/uploads.
func (a *API) ListUploads(w http.ResponseWriter, r *http.Request, params api.ListUploadsParams) {
	q := upload.RunningQuery{Limit: media.DefaultLimit}
	if params.Limit != nil {
		q.Limit = *params.Limit
	}
	var err error
	if q.Capability, err = capabilityOf(r); err == nil && params.After != nil {
		if q.After, err = uuid.Parse(*params.After); err != nil {
			err = fault.New(fault.Invalid, "after is no cursor of this list")
		}
	}
	var page upload.RunningPage
	if err == nil {
		page, err = a.deps.Uploads.List(r.Context(), principal(r), q)
	}
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	query := url.Values{"limit": {strconv.Itoa(q.Limit)}}
	links := a.uploadsLink("first", query)
	if page.Next != uuid.Nil {
		w.Header().Set("X-Next-Cursor", page.Next.String())
		query.Set("after", page.Next.String())
		links += ", " + a.uploadsLink("next", query)
	}
	w.Header().Set("Link", links)
	documents := make(api.RunningUploadList, 0, len(page.Uploads))
	for _, running := range page.Uploads {
		documents = append(documents, api.RunningDocument(running, a.base))
	}
	httpapi.WriteJSON(w, r, http.StatusOK, documents)
}

func (a *API) uploadsLink(relation string, query url.Values) string {
	return "<" + a.base + api.ListUploadsRoute + "?" + query.Encode() + `>; rel="` + relation + `"`
}

// EndUpload answers DELETE /media/uploads/{uploadId}.
func (a *API) EndUpload(w http.ResponseWriter, r *http.Request, id uuid.UUID) {
	capability, err := capabilityOf(r)
	if err == nil {
		err = readNoFields(w, r)
	}
	if err == nil {
		err = a.deps.Uploads.End(r.Context(), principal(r), capability, id)
	}
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
