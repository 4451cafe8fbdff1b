package rest

import (
	"net/http"
	"strings"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// UploadFromURL answers POST /media/create/url.
func (a *API) UploadFromURL(w http.ResponseWriter, r *http.Request) {
	job, err := a.startFetch(w, r)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	w.Header().Set("Location", a.base+strings.Replace(api.URLUploadRoute, "{jobId}", job.ID.String(), 1))
	httpapi.WriteJSON(w, r, http.StatusAccepted, api.NewURLUpload(job))
}

func (a *API) startFetch(w http.ResponseWriter, r *http.Request) (fetch.Job, error) {
	// The generated type has a required URL, which is no pointer.
	var body struct {
		URL      *string            `json:"url"`
		FileName *string            `json:"fileName"`
		Access   *string            `json:"access"`
		Caption  *string            `json:"caption"`
		Group    *string            `json:"group"`
		Metadata *map[string]string `json:"metadata"`
		Seal     *bool              `json:"seal"`
	}
	if err := readJSON(w, r, &body); err != nil {
		return fetch.Job{}, err
	}
	identity := auth.FromContext(r.Context())
	return a.deps.Fetch.Start(r.Context(), fetch.Caller{Principal: identity.Principal, GrantID: identity.GrantID}, fetch.Request{
		URL: deref(body.URL), Seal: deref(body.Seal),
		Fields: media.Fields{FileName: deref(body.FileName), Access: media.Access(deref(body.Access)), Caption: deref(body.Caption),
			Group: deref(body.Group), Metadata: deref(body.Metadata)},
	})
}

// GetURLUpload answers GET /media/create/url/{jobId}.
func (a *API) GetURLUpload(w http.ResponseWriter, r *http.Request, id uuid.UUID) {
	job, err := a.deps.Fetch.Job(r.Context(), principal(r), id)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	httpapi.WriteJSON(w, r, http.StatusOK, api.NewURLUpload(job))
}
