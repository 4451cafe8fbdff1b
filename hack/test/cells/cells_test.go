// Package cells tests two installations with numbers of their own: their ids and credentials have the number at a
// fixed place, so that a proxy can find the cell of a request, and those of another cell are like unknown ones.
package cells

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mediastack.dev/hack/exchange"
	"mediastack.dev/hack/provision"
	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/webuser"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/cell"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var must = check.NoError

const owner = "ben.beyond@people.example"

// member is one cell with its tenant.
type member struct {
	number   cell.Number
	url, key string
	mailLog  string
}

func newMember(t *testing.T, number cell.Number) *member {
	t.Helper()
	c := &member{number: number, mailLog: filepath.Join(testenv.TempDir(t), "mail.log")}
	database, access := testenv.EmptyPostgres(t), testenv.S3(t)
	tenants, err := provision.AccountsOfCell(t.Context(), number, database, access,
		account.Spec{Namespace: "team", Name: "one", Owners: []string{owner}, MaxStorage: 1 << 30, MaxUploadSize: 1 << 30})
	must(t, err)
	c.key = tenants[0].APIKey
	c.url = testenv.Runtime(t, servers.RuntimeConfig{Stores: servers.StoreSettings(database, access),
		Env: append(testenv.MailSink(t, c.mailLog), fmt.Sprintf("SERVICE_CELL=%d", number), "SERVICE_IMAGE_ENABLED=false")}).BaseURL
	return c
}

// send sends a request. header is a list of names and values.
func (c *member) send(t *testing.T, method, path, body string, header ...string) exchange.Answer {
	t.Helper()
	got, err := exchange.Send(t.Context(), http.DefaultClient, method, c.url+strings.TrimPrefix(path, c.url), strings.NewReader(body), header...)
	must(t, err)
	return got
}

// decoded sends a request with the key of the tenant, which must be answered 2xx, and returns a member of the answer.
func (c *member) decoded(t *testing.T, field, method, path, body string, header ...string) string {
	t.Helper()
	got := c.send(t, method, path, body, append(header, "x-service-apikey", c.key)...)
	var fields map[string]any
	if err := json.Unmarshal(got.Body, &fields); err != nil || got.Status/100 != 2 {
		t.Fatalf("%s %s is answered %d: %s, %v", method, path, got.Status, got.Body, err)
	}
	value, _ := fields[field].(string)
	return value
}

// upload stores a public file, and returns its draft's id.
func (c *member) upload(t *testing.T) string {
	t.Helper()
	body, contentType := exchange.Form("a.bin", []byte("a file"), "access", "public")
	return c.decoded(t, "mediaId", http.MethodPost, "/media/create", string(body), "Content-Type", contentType)
}

func (c *member) signature(t *testing.T) string {
	t.Helper()
	return c.decoded(t, "signature", http.MethodPost, "/media/signature/create", "{}", "Content-Type", "application/json")
}

func TestCells_IdsAndCredentialsNameTheirCell(t *testing.T) {
	t.Parallel()
	c := newMember(t, 0xa0b)
	resumable := c.send(t, http.MethodPost, "/media/create/resumable", "", "Tus-Resumable", "1.0.0", "Upload-Length", "13", "x-service-apikey", c.key).Header.Get("Location")
	session, err := mcp.NewClient(&mcp.Implementation{Name: "cells", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: c.url + "/mcp", HTTPClient: &http.Client{Transport: withKey(c.key)}}, nil)
	must(t, err)
	defer func() { _ = session.Close() }()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "upload_media", Arguments: map[string]any{"fileBase64": "aGFsbG8=", "fileName": "hello.txt", "mimeType": "text/plain"}})
	must(t, err)
	structured, _ := result.StructuredContent.(map[string]any)
	byTool, _ := structured["mediaId"].(string)
	for what, id := range map[string]string{"an upload": c.upload(t), "a resumable upload": resumable[strings.LastIndex(resumable, "/")+1:], "an upload of a tool": byTool} {
		if len(id) != 36 || id[20:23] != "a0b" {
			t.Errorf("the id of %s is %q", what, id)
		}
	}
	code, tokens := c.logIn(t)
	for prefix, credential := range map[string]string{"msk_a0b": c.key, "mus_a0b": c.signature(t), "mac_a0b": code, "mat_a0b": tokens.Access, "mrt_a0b": tokens.Refresh} {
		if !strings.HasPrefix(credential, prefix) {
			t.Errorf("a credential begins with %.7q, not %s", credential, prefix)
		}
	}
}

// withKey adds a key to requests.
type withKey string

// RoundTrip implements http.RoundTripper.
func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("x-service-apikey", string(k))
	return http.DefaultTransport.RoundTrip(r)
}

type tokens struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
}

// logIn has the owner authorize an application, and returns its code and the tokens for it.
func (c *member) logIn(t *testing.T) (code string, got tokens) {
	t.Helper()
	codes := make(chan string, 1)
	callback := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { codes <- r.URL.Query().Get("code") }))
	defer callback.Close()
	const verifier = "a-verifier-of-forty-three-characters-or-more-0"
	challenge := sha256.Sum256([]byte(verifier))
	client := c.decoded(t, "client_id", http.MethodPost, "/oauth/register", `{"client_name":"Gopher","redirect_uris":["`+callback.URL+`"]}`, "Content-Type", "application/json")
	query := url.Values{"response_type": {"code"}, "client_id": {client}, "redirect_uri": {callback.URL}, "code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"}}
	webuser.New(t, owner, c.mailLog, nil).LogIn(c.url+"/oauth/authorize?"+query.Encode(), "Gopher")
	code = <-codes
	answer := c.send(t, http.MethodPost, "/oauth/token", url.Values{"grant_type": {"authorization_code"}, "code": {code}, "client_id": {client}, "redirect_uri": {callback.URL}, "code_verifier": {verifier}}.Encode(),
		"Content-Type", "application/x-www-form-urlencoded")
	must(t, json.Unmarshal(answer.Body, &got))
	return code, got
}

// What belongs to another cell is answered like what does not exist.
func TestCells_AnswerForeignIDsAndCredentialsLikeUnknownOnes(t *testing.T) {
	t.Parallel()
	one, two := newMember(t, 0), newMember(t, 0xa0b)
	foreignID := two.upload(t)
	two.decoded(t, "mediaId", http.MethodPost, "/media/seal/"+foreignID, "")
	signature := two.signature(t)
	unknown, err := one.number.NewID()
	must(t, err)
	unknownID := unknown.String()
	unknownKey, err := account.NewKeySecret(one.number)
	must(t, err)
	key := []string{"x-service-apikey", one.key}
	for what, pair := range map[string][2][]string{
		"a media id":          {append([]string{"GET", "/media/get/" + foreignID}, key...), append([]string{"GET", "/media/get/" + unknownID}, key...)},
		"a media id to seal":  {append([]string{"POST", "/media/seal/" + foreignID}, key...), append([]string{"POST", "/media/seal/" + unknownID}, key...)},
		"a file":              {{"GET", "/media/file/" + foreignID + "/original/a.bin"}, {"GET", "/media/file/" + unknownID + "/original/a.bin"}},
		"a resumable upload":  {append([]string{"HEAD", "/media/create/resumable/" + foreignID, "Tus-Resumable", "1.0.0"}, key...), append([]string{"HEAD", "/media/create/resumable/" + unknownID, "Tus-Resumable", "1.0.0"}, key...)},
		"a key":               {{"GET", "/media/get", "x-service-apikey", two.key}, {"GET", "/media/get", "x-service-apikey", unknownKey.Reveal()}},
		"an upload signature": {{"POST", "/media/create", "x-service-signature", signature}, {"POST", "/media/create", "x-service-signature", "mus_000" + signature[7:]}},
		"an access token":     {{"GET", "/media/get", "Authorization", "Bearer mat_a0b" + strings.Repeat("x", 43)}, {"GET", "/media/get", "Authorization", "Bearer mat_000" + strings.Repeat("x", 43)}},
	} {
		foreign, unknown := one.send(t, pair[0][0], pair[0][1], "", pair[0][2:]...), one.send(t, pair[1][0], pair[1][1], "", pair[1][2:]...)
		if foreign.Status != unknown.Status || foreign.Status < 400 || !bytes.Equal(foreign.Body, unknown.Body) {
			t.Errorf("%s of another cell is answered %d %q, an unknown one %d %q", what, foreign.Status, foreign.Body, unknown.Status, unknown.Body)
		}
		for _, header := range []string{"WWW-Authenticate", "Cache-Control", "Content-Type"} {
			if foreign.Header.Get(header) != unknown.Header.Get(header) {
				t.Errorf("%s of another cell is answered with %s: %s, an unknown one with %s", what, header, foreign.Header.Get(header), unknown.Header.Get(header))
			}
		}
	}
}
