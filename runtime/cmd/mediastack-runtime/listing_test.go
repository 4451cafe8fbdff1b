package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// What is answered without a credential names no account, no owner and no file, and the card agrees with what the
// endpoint says of itself.
func TestListing_NamesNoTenant(t *testing.T) {
	t.Parallel()
	s := whole(t, "--brand-name=Town pictures", "--brand-website=https://example.org/about", "--privacy-url=https://example.org/privacy", "--openai-apps-challenge=a-token")
	get := func(path, key string, change ...func(*http.Request)) (int, http.Header, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.address+path, nil)
		must(t, err)
		request.Host = "media.test"
		if key != "" {
			request.Header.Set("x-service-apikey", key)
		}
		for _, apply := range change {
			apply(request)
		}
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		must(t, err)
		return response.StatusCode, response.Header, string(text)
	}
	secrets := []string{s.tenant.Account.ID.String(), s.tenant.Account.Namespace + "/" + s.tenant.Account.Name, s.tenant.App.ID.String(), s.tenant.Key}
	bodies := map[string]string{}
	for _, path := range []string{"/mcp/server-card", "/.well-known/ai-catalog.json", "/.well-known/mcp/catalog.json", "/.well-known/openai-apps-challenge", "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp"} {
		var texts []string
		for _, key := range []string{"", s.tenant.Key} { // a credential changes nothing
			status, header, text := get(path, key, func(q *http.Request) { q.Header.Set("Origin", "https://directory.example") })
			if status != http.StatusOK || header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%s: %d %v %s", path, status, header, text)
			}
			texts = append(texts, text)
		}
		for _, secret := range secrets {
			if strings.Contains(texts[0], secret) {
				t.Errorf("%s has %s: %s", path, secret, texts[0])
			}
		}
		if texts[0] != texts[1] {
			t.Errorf("%s differs with a credential: %q", path, texts)
		}
		bodies[path] = texts[0]
	}
	var card struct {
		Name, Title, Version, WebsiteURL string
		Icons                            []struct{ Src, MimeType string }
		Remotes                          []struct {
			URL                       string
			SupportedProtocolVersions []string
		}
	}
	must(t, json.Unmarshal([]byte(bodies["/mcp/server-card"]), &card))
	if card.Name != "test.media/media-storage" || card.Title != "Town pictures" || card.WebsiteURL != "https://example.org/about" || len(card.Icons) != 1 || card.Remotes[0].URL != "http://media.test/mcp" || len(card.Remotes[0].SupportedProtocolVersions) < 3 {
		t.Errorf("the card is %s", bodies["/mcp/server-card"])
	}
	status, header, _ := get(strings.TrimPrefix(card.Icons[0].Src, "http://media.test"), "")
	if status != http.StatusOK || header.Get("Content-Type") != card.Icons[0].MimeType || header.Get("Cross-Origin-Resource-Policy") != "cross-origin" {
		t.Errorf("the icon %s: %d %v", card.Icons[0].Src, status, header)
	}
	for _, version := range card.Remotes[0].SupportedProtocolVersions {
		if version >= "2026" {
			continue // it has no initialize
		}
		var answer struct {
			Result struct {
				ProtocolVersion string
				ServerInfo      struct {
					Name, Title, Version, WebsiteURL string
					Icons                            []struct{ Src string }
				}
			}
		}
		body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.address+"/mcp", strings.NewReader(body))
		must(t, err)
		request.Host = "media.test"
		request.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "X-Service-Apikey": {s.tenant.Key}}
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		must(t, json.NewDecoder(response.Body).Decode(&answer))
		_ = response.Body.Close()
		info := answer.Result.ServerInfo
		if answer.Result.ProtocolVersion != version || info.Name != "mediastack" || info.Title != card.Title || info.Version != card.Version || info.WebsiteURL != card.WebsiteURL || len(info.Icons) != 1 || info.Icons[0].Src != card.Icons[0].Src {
			t.Errorf("%s: %+v", version, answer)
		}
	}
}

func TestServerJSON_IsPrinted(t *testing.T) {
	t.Parallel()
	code, out, stderr := call(t.Context(), "server-json", "--base-url=https://media.example.org", "--brand-name=Town pictures", "--listing-name=org.example/pictures", "--smtp-host=127.0.0.1", "--mail-from=a@example.org")
	var document map[string]any
	must(t, json.Unmarshal([]byte(out), &document))
	if code != 0 || document["name"] != "org.example/pictures" || document["title"] != "Town pictures" || document["$schema"] != "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json" || strings.Contains(out, "apikey") || !strings.Contains(out, "https://media.example.org/oauth/assets/mark.svg?v=") {
		t.Errorf("%d %s %s", code, out, stderr)
	}
	if code, out, stderr = call(t.Context(), "server-json", "--base-url=http://127.0.0.1:8080"); code != exitUsage || out != "" || !strings.Contains(stderr, "SERVICE_BASE_URL must be an https URL") {
		t.Errorf("an address that nobody reaches: %d %s %s", code, out, stderr)
	}
}

func TestReviewCode_IsPrintedOnce(t *testing.T) {
	t.Parallel()
	code, out, stderr := call(t.Context(), "secrets", "review-code", "--account=team-a/demo", "--email=Reviewer@example.org")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 2 || !strings.HasPrefix(lines[0], "code: ") || !strings.HasPrefix(lines[1], "SERVICE_REVIEW_LOGINS=team-a/demo:reviewer@example.org:600000:") {
		t.Fatalf("%d %s %s", code, out, stderr)
	}
	if digits := strings.ReplaceAll(strings.TrimPrefix(lines[0], "code: "), " ", ""); len(digits) != 16 || strings.Contains(lines[1], digits) {
		t.Errorf("the code is %s, the entry %s", digits, lines[1])
	}
	for _, args := range [][]string{{"--account=demo", "--email=a@example.org"}, {"--account=team-a/demo", "--email=a"}} {
		if code, out, _ := call(t.Context(), append([]string{"secrets", "review-code"}, args...)...); code != exitUsage || out != "" {
			t.Errorf("%v: %d %s", args, code, out)
		}
	}
}
