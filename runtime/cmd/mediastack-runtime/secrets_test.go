package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/runtimetest"
)

// misplaced are texts in the format of every credential. runtime/redact masks some formats with the same expression: one of
// them is sent in all fields, the others only in those where credentials belong, which the product reads itself.
var misplaced = map[string]struct {
	text       string
	everywhere bool
}{
	"API key":            {"msk_00a" + strings.Repeat("aB3", 14) + "x", false},
	"access token":       {"mat_" + strings.Repeat("cD4", 14) + "x." + strings.Repeat("e9-", 14) + "x", true},
	"refresh token":      {"mrt_" + strings.Repeat("eF5", 14) + "x", false},
	"authorization code": {"mac_" + strings.Repeat("gH6", 14) + "x", false},
	"upload signature":   {"mus_00cAQ" + strings.Repeat("Ij7", 25) + "." + strings.Repeat("kL8", 14) + "x", true},
	"one-time code":      {"48151623", true},
	"escaped API key":    {"msk%5F" + strings.Repeat("mN9", 14) + "x", true},
	"URL signature":      {strings.Repeat("oP1-", 10) + "xyz", false},
}

// fullEnv makes TestMisplacedCredentials_AreInNoLogAndNoResponse run at its full size, as `make test-requests` does.
const fullEnv = "MEDIASTACK_TEST_FULL"

// attempt is a request with a credential in a wrong field.
type attempt struct {
	method, target string
	header         http.Header
	body           string
	keyed          bool // it is sent with a key, too
	onlyKeyed      bool // and not without one
}

// probed is a route, and what a plain request to it is answered.
type probed struct {
	route
	// alike says that another path is answered by the same handler, before it looks at more than the address and the
	// header: a method that a path does not have, or a preflight. That path has all attempts.
	alike bool
	// keyless says that a key changes nothing, and closed that without one the body is not read (401).
	keyless, closed bool
}

// probe sends a plain request to each route, with and without the key.
func (s *service) probe(t *testing.T, client *http.Client) []probed {
	t.Helper()
	var all []probed
	handlers := map[string]bool{}
	for _, to := range s.routes(t) {
		var answers [2]string
		for i, key := range []string{"", s.tenant.Key} {
			request, err := http.NewRequestWithContext(t.Context(), to.method, "http://media.test"+to.path, http.NoBody)
			must(t, err)
			if key != "" {
				request.Header.Set("X-Service-Apikey", key)
			}
			response, err := client.Do(request)
			must(t, err)
			text, err := io.ReadAll(response.Body)
			must(t, err)
			must(t, response.Body.Close())
			answers[i] = fmt.Sprintf("%d %s %d", response.StatusCode, response.Header.Get("Content-Type"), len(text)) // not the text: it has nonces
		}
		one := probed{route: to, keyless: answers[0] == answers[1], closed: strings.HasPrefix(answers[0], "401 ")}
		if handler := to.method + " " + answers[1][:3]; strings.HasSuffix(handler, " 405") || handler == "OPTIONS 204" {
			one.alike = handlers[handler]
			handlers[handler] = true
		}
		all = append(all, one)
	}
	return all
}

// credentialFields are the fields where credentials belong.
var credentialFields = []string{"X-Service-Apikey", "X-Service-Signature", "Authorization", "Cookie", "signature", "id", "code", "token", "refresh_token", "code_verifier"}

// attempts returns requests with the text in every field that a client can set, or in those alone where credentials belong.
func attempts(all []probed, secret string, everywhere bool) []attempt {
	var made []attempt
	sent := func(names ...string) []string {
		if everywhere {
			return names
		}
		return slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(credentialFields, name) })
	}
	escaped := url.QueryEscape(secret)
	keyed := true
	add := func(method, target, kind, body string, header ...string) {
		a := attempt{method: method, target: target, header: http.Header{}, body: body, keyed: keyed}
		if kind != "" {
			a.header.Set("Content-Type", kind)
		}
		for i := 0; i+1 < len(header); i += 2 {
			a.header.Set(header[i], header[i+1])
		}
		made = append(made, a)
	}
	const id = "01a1fd74-5f6f-7afa-be5e-3510feddacd9"
	for _, to := range all {
		keyed = !to.keyless
		add(to.method, to.path+"/"+escaped, "", "")
		add(to.method, strings.ReplaceAll(to.path, id, escaped), "", "")
		add(to.method, to.path+"?"+secret+"%zz", "", "")
		add(to.method, to.path+"?"+escaped+"="+escaped, "", "")
		if to.alike {
			add(to.method, to.path, "application/json", `{"`+secret+`":"`+secret+`"}`, "X-Request-Id", secret, "X-Service-Apikey", secret)
			continue
		}
		for _, name := range sent("page", "limit", "access", "group", "id", "expires", "signature") {
			add(to.method, to.path+"?"+name+"="+escaped, "", "")
			add(to.method, to.path+"?"+name+"="+escaped+"&"+name+"="+escaped, "", "")
		}
		for _, name := range sent("X-Request-Id", "X-Service-Apikey", "X-Service-Signature", "Authorization", "Content-Type", "Accept", "Range", "If-Match", "Origin", "X-Http-Method-Override",
			"Tus-Resumable", "Upload-Length", "Upload-Offset", "Upload-Metadata", "Upload-Checksum", "Upload-Concat", "Upload-Defer-Length",
			"Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Mcp-Session-Id", "X-Forwarded-For", "Cookie", secretHeader(secret)) {
			add(to.method, to.path, "", "", name, secret)
		}
		if !everywhere {
			continue
		}
		before := len(made)
		for _, value := range []string{`"` + secret + `"`, `["` + secret + `"]`, `{"` + secret + `":1}`} {
			for _, name := range []string{secret, "page", "access", "group", "useWebP", "webpOutputQuality", "thumbnailWidth", "client_id", "redirect_uris", "client_name"} {
				add(to.method, to.path, "application/json", `{"`+name+`":`+value+`}`)
			}
			add(to.method, to.path, "application/json", value)
		}
		add(to.method, to.path, "application/json", secret)
		for i := range made[before+1:] {
			made[before+1+i].onlyKeyed = to.closed
		}
	}
	keyed = true
	for _, method := range []string{"tools/call", "tools/list", "initialize", secret} {
		for _, params := range []string{
			`{"name":"` + secret + `"}`, `{"name":"get_media","arguments":{"mediaId":"` + secret + `"}}`, `{"name":"get_media","arguments":{"` + secret + `":1}}`,
			`{"name":"list_media","arguments":{"page":"` + secret + `","access":"` + secret + `"}}`, `{"name":"upload_media","arguments":{"fileBase64":"` + secret + `","fileName":"` + secret + `","mimeType":"` + secret + `"}}`,
			`{"protocolVersion":"` + secret + `","capabilities":{},"clientInfo":{"name":"` + secret + `","version":"1"}}`, `"` + secret + `"`, `{"` + secret + `":{}}`,
		} {
			for _, version := range []string{"", "2025-06-18", "2026-07-28"} {
				add(http.MethodPost, "/mcp", "application/json", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`,
					"Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", version, "Mcp-Method", method)
			}
		}
	}
	keyed = false // none of these looks at a key
	for _, path := range []string{"/oauth/authorize", "/oauth/token", "/oauth/revoke", "/oauth/login", "/oauth/login/email", "/oauth/login/code", "/oauth/consent", "/account/connections/end", "/account/files", "/account/files/delete", "/account/files/upload", "/account/files/edit", "/account/files/selected", "/account/files/signature"} {
		for _, name := range sent("client_id", "redirect_uri", "scope", "response_type", "code", "code_verifier", "code_challenge", "code_challenge_method", "grant_type", "refresh_token", "token", "resource", "request", "csrf", "email", "address", "account", "item", "back", "name", "done", escaped) {
			form := "response_type=code&grant_type=authorization_code&" + name + "=" + escaped
			add(http.MethodGet, path+"?"+form, "", "")
			add(http.MethodPost, path, "application/x-www-form-urlencoded", form)
			add(http.MethodPost, path, "application/x-www-form-urlencoded", form+"&"+form)
		}
		add(http.MethodGet, path+"?client_id="+url.QueryEscape("https://127.0.0.1/c.json?key="+secret)+"&redirect_uri=https%3A%2F%2F127.0.0.1%2F&response_type=code", "", "")
		add(http.MethodGet, path+"?client_id="+url.QueryEscape("https://127.0.0.1/"+secret)+"&redirect_uri=https%3A%2F%2F127.0.0.1%2F&response_type=code", "", "")
	}
	for _, uri := range []string{secret, "https://app.example.org/" + secret, secret + "://callback"} {
		add(http.MethodPost, "/oauth/register", "application/json", `{"redirect_uris":["`+uri+`"],"token_endpoint_auth_method":"`+secret+`","grant_types":["`+secret+`"]}`)
	}
	keyed = true
	for _, part := range []string{`name="` + secret + `"`, `name="access"`, `name="` + secret + `"; filename="` + secret + `"`, secret} {
		add(http.MethodPost, "/media/create", "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; "+part+"\r\n\r\n"+secret+"\r\n--x--\r\n")
	}
	add(http.MethodPost, "/media/create", "multipart/form-data; boundary="+secret, "x")
	add(http.MethodPost, "/media/create", "multipart/form-data; boundary=x", secret)
	for _, metadata := range []string{secret, "access " + base64.StdEncoding.EncodeToString([]byte(secret)), "filename " + secret, secret + " " + secret} {
		add(http.MethodPost, "/media/create/resumable", "", "", "Tus-Resumable", "1.0.0", "Upload-Length", "5", "Upload-Metadata", metadata)
	}
	return made
}

func secretHeader(secret string) string {
	return "X-" + strings.NewReplacer(".", "-", "_", "-").Replace(secret)
}

// A key that was sent in a wrong field, such as a path or the name of a field, was once quoted
// in errors and logged in clear.
func TestMisplacedCredentials_AreInNoLogAndNoResponse(t *testing.T) {
	t.Parallel()
	s := whole(t, "--rate-limit-key=0", "--rate-limit-ip=0")
	transport := runtimetest.Dialer(s.address)
	transport.MaxIdleConnsPerHost = 8
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	all := s.probe(t, client)
	// Each field has one of the texts that are sent everywhere; with fullEnv, all of them.
	shares, share := 0, 0
	for _, secret := range misplaced {
		if secret.everywhere {
			shares++
		}
	}
	if os.Getenv(fullEnv) != "" {
		shares = 1
	}
	for what, secret := range misplaced {
		made, sent := attempts(all, secret.text, secret.everywhere), 0
		least := 2_000
		if secret.everywhere {
			made, least = oneOf(made, shares, share), 8_000/shares
			share++
		}
		for _, a := range made {
			if !a.onlyKeyed && send(t, client, a, "", what, secret.text) {
				sent++
			}
			if a.keyed && send(t, client, a, s.tenant.Key, what, secret.text) {
				sent++
			}
		}
		if sent < least {
			t.Errorf("%s: only %d requests were sent, not %d", what, sent, least)
		}
		if t.Failed() {
			return
		}
	}
	for line := range strings.Lines(s.logs.String()) {
		for what, secret := range misplaced {
			if leaks(line, secret.text) {
				t.Errorf("%s: the log says %s", what, line)
			}
		}
	}
}

// oneOf returns every attempt whose number has a remainder.
func oneOf(made []attempt, shares, remainder int) (some []attempt) {
	for n, a := range made {
		if n%shares == remainder%shares {
			some = append(some, a)
		}
	}
	return some
}

// send sends a request, and checks its answer. It returns false for one that the client can't send.
func send(t *testing.T, client *http.Client, a attempt, key, what, secret string) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), a.method, "http://media.test"+a.target, strings.NewReader(a.body))
	if err != nil {
		return false // a method or an address
	}
	request.Header = a.header.Clone()
	if key != "" && a.header.Get("X-Service-Apikey") == "" {
		request.Header.Set("X-Service-Apikey", key)
	}
	response, err := client.Do(request)
	if err != nil {
		return false // a header
	}
	text, err := io.ReadAll(response.Body)
	must(t, err)
	must(t, response.Body.Close())
	var header bytes.Buffer
	must(t, response.Header.Write(&header))
	// An accepted text is the client's own data, such as the name of a group.
	accepted := response.StatusCode < http.StatusBadRequest && !strings.HasPrefix(a.target, "/mcp")
	if !accepted && (leaks(string(text), secret) || leaks(header.String(), secret)) {
		t.Errorf("%s: %s %s %q is answered %d %s%s", what, a.method, a.target, a.body, response.StatusCode, header.String(), text)
	}
	return true
}

// leaks reports whether enough of a secret is in the text to guess the rest.
func leaks(text, secret string) bool {
	_, digits, found := strings.Cut(strings.ReplaceAll(secret, "%5F", "_"), "_")
	if !found {
		digits = secret
	}
	return strings.Contains(text, digits[:min(len(digits), 12)])
}
