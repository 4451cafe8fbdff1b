package oauthhttp_test

import (
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv/retryafter"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

// Responses of the endpoints and of pages had no Retry-After.
func TestOutage_SetsRetryAfter(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	rt := w.Replica(t)
	w.Store.Close()
	for path, body := range map[string]string{
		"/oauth/register":      `{"redirect_uris":["http://127.0.0.1/cb"]}`,
		"/oauth/token":         "grant_type=refresh_token&client_id=mcl_x&refresh_token=mrt_" + strings.Repeat("a", 46),
		"/oauth/authorize":     "",
		"/account/connections": "",
	} {
		method, kind := http.MethodPost, "application/x-www-form-urlencoded"
		if body == "" {
			method = http.MethodGet
			path += "?response_type=code&client_id=mcl_x&redirect_uri=http%3A%2F%2F127.0.0.1%2Fcb&code_challenge=" + strings.Repeat("a", 43) + "&code_challenge_method=S256"
		} else if body[0] == '{' {
			kind = "application/json"
		}
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+rt.Addr()+path, strings.NewReader(body))
		must(t, err)
		request.Header.Set("Content-Type", kind)
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		must(t, response.Body.Close())
		if response.StatusCode != http.StatusServiceUnavailable || !retryafter.Is(response.Header, 5) {
			t.Errorf("%s %s: %d, Retry-After %q", method, path, response.StatusCode, response.Header.Get("Retry-After"))
		}
	}
}
