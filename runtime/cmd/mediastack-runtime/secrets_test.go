package main

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/runtimetest"
)

// misplaced are texts in the format of every credential.
var misplaced = map[string]string{
	"API key":            "msk_00a" + strings.Repeat("aB3", 14) + "x",
	"access token":       "mat_" + strings.Repeat("cD4", 14) + "x." + strings.Repeat("e9-", 14) + "x",
	"refresh token":      "mrt_" + strings.Repeat("eF5", 14) + "x",
	"authorization code": "mac_" + strings.Repeat("gH6", 14) + "x",
	"upload signature":   "mus_00cAQ" + strings.Repeat("Ij7", 25) + "." + strings.Repeat("kL8", 14) + "x",
	"one-time code":      "48151623",
	"escaped API key":    "msk%5F" + strings.Repeat("mN9", 14) + "x",
	"URL signature":      strings.Repeat("oP1-", 10) + "xyz",
}

// attempt is a request with a credential in a wrong field.
type attempt struct {
	method, target string
	header         http.Header
	body           string
}

// attempts returns requests with the text in every field that a client can set.
func attempts(all []route, secret string) []attempt {
	var made []attempt
	escaped := url.QueryEscape(secret)
	add := func(method, target, kind, body string, header ...string) {
		a := attempt{method: method, target: target, header: http.Header{}, body: body}
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
		add(to.method, to.path+"/"+escaped, "", "")
		add(to.method, strings.ReplaceAll(to.path, id, escaped), "", "")
		for _, name := range []string{"page", "limit", "access", "group", "id", "expires", "signature", escaped} {
			add(to.method, to.path+"?"+name+"="+escaped, "", "")
			add(to.method, to.path+"?"+name+"="+escaped+"&"+name+"="+escaped, "", "")
		}
		add(to.method, to.path+"?"+secret+"%zz", "", "")
		for _, name := range []string{"X-Request-Id", "X-Service-Apikey", "X-Service-Signature", "Authorization", "Content-Type", "Accept", "Range", "If-Match", "Origin", "X-Http-Method-Override",
			"Tus-Resumable", "Upload-Length", "Upload-Offset", "Upload-Metadata", "Upload-Checksum", "Upload-Concat", "Upload-Defer-Length",
			"Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Mcp-Session-Id", "X-Forwarded-For", "Cookie", secretHeader(secret)} {
			add(to.method, to.path, "", "", name, secret)
		}
		for _, value := range []string{`"` + secret + `"`, `["` + secret + `"]`, `{"` + secret + `":1}`} {
			for _, name := range []string{secret, "page", "access", "group", "useWebP", "webpOutputQuality", "thumbnailWidth", "client_id", "redirect_uris", "client_name"} {
				add(to.method, to.path, "application/json", `{"`+name+`":`+value+`}`)
			}
			add(to.method, to.path, "application/json", value)
		}
		add(to.method, to.path, "application/json", secret)
	}
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
	for _, path := range []string{"/oauth/authorize", "/oauth/token", "/oauth/revoke", "/oauth/login", "/oauth/login/email", "/oauth/login/code", "/oauth/consent", "/account/connections/end", "/account/files", "/account/files/delete", "/account/files/upload"} {
		for _, name := range []string{"client_id", "redirect_uri", "scope", "response_type", "code", "code_verifier", "code_challenge", "code_challenge_method", "grant_type", "refresh_token", "token", "resource", "request", "csrf", "email", "address", "account", "item", "back", "name", "done", escaped} {
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
	all := s.routes(t)
	transport := runtimetest.Dialer(s.address)
	transport.MaxIdleConnsPerHost = 8
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for what, secret := range misplaced {
		sent := 0
		for _, a := range attempts(all, secret) {
			for _, key := range []string{"", s.tenant.Key} {
				request, err := http.NewRequestWithContext(t.Context(), a.method, "http://media.test"+a.target, strings.NewReader(a.body))
				if err != nil {
					continue // a method or an address that the client can't send
				}
				request.Header = a.header.Clone()
				if key != "" && a.header.Get("X-Service-Apikey") == "" {
					request.Header.Set("X-Service-Apikey", key)
				}
				response, err := client.Do(request)
				if err != nil {
					continue // a header that the client can't send
				}
				sent++
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
			}
		}
		if sent < 10_000 {
			t.Errorf("%s: only %d requests were sent", what, sent)
		}
		for line := range strings.Lines(s.logs.String()) {
			if leaks(line, secret) {
				t.Errorf("%s: the log says %s", what, line)
			}
		}
		if t.Failed() {
			return
		}
	}
}

// leaks reports whether enough of a secret is in the text to guess the rest.
func leaks(text, secret string) bool {
	_, digits, found := strings.Cut(strings.ReplaceAll(secret, "%5F", "_"), "_")
	if !found {
		digits = secret
	}
	return strings.Contains(text, digits[:min(len(digits), 12)])
}
