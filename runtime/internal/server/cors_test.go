package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
)

func TestPreflight_RejectionIsExplainedInTheLog(t *testing.T) {
	t.Parallel()
	routes := func(r chi.Router) {
		r.Post("/create", func(http.ResponseWriter, *http.Request) {})
		r.Delete("/media/{id}", func(http.ResponseWriter, *http.Request) {})
	}
	some := valid()
	some.Origins.Patterns = []string{"https://app.example.org"}
	for _, c := range []struct {
		cfg                           Config
		path, origin, method, headers string
		want                          string // "" = allowed
	}{
		{some, "/create", "https://app.example.org", http.MethodPost, "x-service-apikey", ""},
		{some, "/media/1", "https://app.example.org", http.MethodDelete, "", ""},
		{some, "/create", "https://evil.example.org", http.MethodPost, "", "neither SERVICE_CORS_ORIGINS nor an account names the origin"},
		{some, "/create", "https://app.example.org", http.MethodPost, "x-service-apikey,content-type", "must be sorted"},
		{some, "/create", "https://app.example.org", http.MethodPost, "Content-Type", "must be sorted"},
		{some, "/create", "https://app.example.org", http.MethodPost, "content-type,content-type", "must be sorted"},
		{some, "/create", "https://app.example.org", http.MethodPost, "content-type,x-service-apikey", ""},
		{some, "/create", "https://app.example.org", http.MethodPost, "x-odd", "pages may not set the header"},
		{some, "/create", "https://app.example.org", http.MethodDelete, "", "the route has no method DELETE"},
		{some, "/elsewhere", "https://app.example.org", http.MethodDelete, "", "route not found"},
		{valid(), "/create", "https://app.example.org", http.MethodPost, "", "neither SERVICE_CORS_ORIGINS nor an account names the origin"},
	} {
		server, logs := runningWith(t, c.cfg, routes)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, server.URL+c.path, nil)
		must(t, err)
		request.Header.Set("Origin", c.origin)
		request.Header.Set("Access-Control-Request-Method", c.method)
		if c.headers != "" {
			request.Header.Set("Access-Control-Request-Headers", c.headers)
		}
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		must(t, response.Body.Close())
		server.Close() // every line is written
		if allowed := response.Header.Get("Access-Control-Allow-Origin") != ""; allowed != (c.want == "") {
			t.Errorf("%s %s by %s: allowed %v", c.method, c.path, c.origin, allowed)
		}
		if text := logs.String(); strings.Contains(text, "preflight rejected") == (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s %s by %s: the log says %s", c.method, c.path, c.origin, text)
		}
	}
}
