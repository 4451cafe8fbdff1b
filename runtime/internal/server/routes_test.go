package server

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
)

// itemRoutes are routes of the forms that the service has.
func itemRoutes(r chi.Router) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Pattern", chi.RouteContext(r.Context()).RoutePattern())
		_, _ = io.WriteString(w, "body")
	}
	r.Get("/media/get", answer)
	r.Post("/media/get", answer)
	r.Post("/media/create", answer)
	r.Patch("/media/{mediaId}", answer)
	r.Get("/media/get/{mediaId}", answer)
	r.Get("/docs", answer)
	r.Get("/docs/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPermanentRedirect) })
}

func TestRoutes_MethodsAndSlashes(t *testing.T) {
	t.Parallel()
	s := start(t, valid(), itemRoutes)
	const id = "0190a0a0-0000-7000-8000-000000000000"
	for _, tt := range []struct {
		line, pattern, allow string
		status               int
	}{
		{"HEAD /media/get", "/media/get", "", 200}, {"HEAD /media/get/" + id, "/media/get/{mediaId}", "", 200}, {"HEAD /docs", "/docs", "", 200},
		{"HEAD /media/create", "", "POST", 405}, {"PUT /media/get", "", "GET, HEAD, POST", 405},
		{"PATCH /media/create", "", "POST", 405}, {"PATCH /media/get", "", "GET, HEAD, POST", 405}, {"PATCH /media/" + id, "/media/{mediaId}", "", 200},
		{"GET /media/create", "", "POST", 405}, {"OPTIONS /media/get", "", "GET, HEAD, POST", 204}, {"GET /media/" + id, "", "PATCH", 405}, {"GET /nothing", "", "", 404},
		{"GET /media/get/", "/media/get", "", 200}, {"POST /media/create/", "/media/create", "", 200}, {"PATCH /media/create/", "", "POST", 405}, {"GET /media/get/" + id + "/", "/media/get/{mediaId}", "", 200},
		{"GET /docs/", "", "", 308}, {"GET /nothing/", "", "", 404}, {"GET /media/get//", "", "", 404}, {"GET //", "", "", 404},
	} {
		method, path, _ := strings.Cut(tt.line, " ")
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr()+path, nil)
		must(t, err)
		response, err := http.DefaultTransport.RoundTrip(request)
		must(t, err)
		body, err := io.ReadAll(response.Body)
		must(t, err)
		must(t, response.Body.Close())
		if response.StatusCode != tt.status || response.Header.Get("X-Pattern") != tt.pattern || response.Header.Get("Allow") != tt.allow {
			t.Errorf("%s: %d, %q, Allow %q: %s", tt.line, response.StatusCode, response.Header.Get("X-Pattern"), response.Header.Get("Allow"), body)
		}
		if method == http.MethodHead && (len(body) > 0 || tt.status == http.StatusOK && response.ContentLength != int64(len("body"))) {
			t.Errorf("%s: length %d, %s", tt.line, response.ContentLength, body)
		}
	}
}
