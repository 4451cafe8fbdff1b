package webupload

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/handover"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
)

// errNoRequest is the fault of an address that is none: that of no request, and of one that was deleted after its time.
var errNoRequest = fault.New(fault.NotFound, "This address does not exist, or it has expired.")

// find returns the request of a token, and its upload signature. Wrong tokens count as any wrong credential of the client.
func (a *API) find(r *http.Request) (handover.Found, string, error) {
	token, ok := handover.ParseToken(chi.URLParam(r, "token"))
	if err := a.Auth.AllowToken(r.Context(), token); err != nil {
		return handover.Found{}, "", err
	}
	if !ok {
		a.Auth.RecordToken(r.Context(), token, false)
		return handover.Found{}, "", errNoRequest
	}
	found, err := a.Requests.Of(r.Context(), token)
	if err == nil || fault.Is(err, fault.NotFound) {
		a.Auth.RecordToken(r.Context(), token, err == nil)
	}
	if fault.Is(err, fault.NotFound) {
		return handover.Found{}, "", errNoRequest
	}
	if err != nil {
		return handover.Found{}, "", err
	}
	signature, err := a.Auth.SignatureOf(found.Request, token)
	return found, signature, err
}

// signed returns a request with the signature, for another route. It has nothing else of who sends it but an address that the client may not have.
func (a *API) signed(r *http.Request, signature, path string) *http.Request {
	sent := r.Clone(context.WithValue(r.Context(), chi.RouteCtxKey, chi.NewRouteContext()))
	sent.URL = &url.URL{Path: path}
	sent.Header.Set(a.Auth.SignatureHeader, signature)
	return sent
}

// passTo returns the handler that passes a request with a token on to a route of REST or TUS.
func (a *API) passTo(path string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { a.pass(w, r, path) }
}

// passToUpload is passTo for an upload by TUS that exists.
func (a *API) passToUpload() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := uuid.Parse(chi.URLParam(r, "uploadId"))
		if err != nil {
			httpapi.WriteError(w, r, fault.New(fault.NotFound, "upload not found"))
			return
		}
		a.pass(w, r, api.ResumableRoute+"/"+id.String())
	}
}

func (a *API) pass(w http.ResponseWriter, r *http.Request, path string) {
	_, signature, err := a.find(r)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	// The addresses of uploads below this one need no header either.
	own := a.base + handover.PagePath + chi.URLParam(r, "token") + handover.ResumableSuffix + "/"
	a.apis.ServeHTTP(&relocated{ResponseWriter: w, from: a.base + api.ResumableRoute + "/", to: own}, a.signed(r, signature, path))
}

// relocated changes the Location of an upload.
type relocated struct {
	http.ResponseWriter
	from, to string
	written  bool
}

// WriteHeader implements http.ResponseWriter.
func (w *relocated) WriteHeader(status int) {
	w.written = true
	if id, ok := strings.CutPrefix(w.Header().Get("Location"), w.from); ok {
		w.Header().Set("Location", w.to+id)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *relocated) Write(b []byte) (int, error) {
	if !w.written {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *relocated) Unwrap() http.ResponseWriter { return w.ResponseWriter }
