package mcp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// secretScanner records every secret that passes the balancer in either direction, to search logs for
// it.
type secretScanner struct {
	mu      sync.Mutex
	secrets map[string]string // value -> what it is
	grants  map[string]int    // answers with tokens, by grant_type
}

func newSecretScanner() *secretScanner {
	return &secretScanner{secrets: map[string]string{}, grants: map[string]int{}}
}

func (w *secretScanner) note(what string, values ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, value := range values {
		if value != "" {
			w.secrets[value] = what
		}
	}
}

// granted returns how often tokens were issued for a grant_type.
func (w *secretScanner) granted(grant string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.grants[grant]
}

func (w *secretScanner) request(r *http.Request, body []byte) {
	if w == nil {
		return
	}
	if _, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok {
		w.note("access token", token)
	}
	for _, cookie := range r.Cookies() {
		w.note("cookie", cookie.Value)
	}
	w.note("state", r.URL.Query().Get("state"))
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	form, err := url.ParseQuery(string(body))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return
	}
	for name, what := range map[string]string{"csrf": "form token", "code": "code", "code_verifier": "code verifier", "refresh_token": "refresh token"} {
		if name == "code" && r.URL.Path == "/oauth/token" {
			what = "authorization code"
		}
		w.note(what, form[name]...)
	}
	r.Header.Set(grantType, form.Get("grant_type")) // for the answer
}

// grantType carries the grant_type of a request to its response. It reaches the replica, too, which
// ignores it.
const grantType = "X-Grant-Type"

func (w *secretScanner) response(r *http.Response) error {
	if w == nil {
		return nil
	}
	for _, cookie := range r.Cookies() {
		w.note("cookie", cookie.Value)
	}
	if to, err := r.Location(); err == nil {
		w.note("authorization code", to.Query().Get("code"))
	}
	if r.Request.URL.Path != "/oauth/token" || r.StatusCode != http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(body))
	var tokens struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	if err := json.Unmarshal(body, &tokens); err != nil || tokens.Access == "" || tokens.Refresh == "" {
		return fmt.Errorf("the tokens can't be read: %w", err)
	}
	w.note("access token", tokens.Access)
	w.note("refresh token", tokens.Refresh)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.grants[r.Request.Header.Get(grantType)]++
	return nil
}

// digits matches a mailed code; as part of a longer number or id it is none.
var digits = regexp.MustCompile(`^\d{8}$`)

// leaks returns the lines of a log that have a secret.
func (w *secretScanner) leaks(t *testing.T, path string) (found []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		words, fields := lines.Bytes(), map[string]any{}
		if json.Unmarshal(words, &fields) == nil {
			// Times and durations are random digits.
			delete(fields, "time")
			delete(fields, "duration")
			words, err = json.Marshal(fields)
			must(t, err)
		}
		for secret, what := range w.secrets {
			if digits.MatchString(secret) && regexp.MustCompile(`\b`+secret+`\b`).Match(words) || !digits.MatchString(secret) && strings.Contains(line, secret) {
				found = append(found, what+": "+line)
			}
		}
	}
	return found
}
