// Package cells simulates several installations behind one base URL: two complete ones, with their
// own databases, buckets and server secrets, behind a proxy that finds the cell of a request by its
// number in ids and credentials. docs/decisions/0023 says what the simulation shows.
package cells

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

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

// site is two cells behind an edge.
type site struct {
	*edge
	mailLog string
	cells   []*member
}

// member is one cell with its tenant.
type member struct {
	number   cell.Number
	address  string
	database string
	owner    string
	origin   string // whose pages may call, by the list of the account
	key      string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{mailLog: filepath.Join(testenv.TempDir(t), "mail.log")}
	_, mail, err := testenv.Group(t).StartMailSink(t.Context(), 0, s.mailLog)
	must(t, err)
	host, port, err := net.SplitHostPort(mail)
	must(t, err)
	s.cells = []*member{{number: 0, owner: "nora.null@people.example", origin: "https://null.example"}, {number: 0xa0b, owner: "ben.beyond@people.example", origin: "https://beyond.example"}}
	s.edge = newEdge(t, map[string]cell.Number{s.cells[0].owner: s.cells[0].number, s.cells[1].owner: s.cells[1].number})
	for i, c := range s.cells {
		c.database = testenv.EmptyPostgres(t)
		access := testenv.S3(t)
		tenants, err := provision.AccountsOfCell(t.Context(), c.number, c.database, access,
			account.Spec{Namespace: "team", Name: "one", Owners: []string{c.owner}, Origins: []string{c.origin}, MaxStorage: 1 << 30, MaxUploadSize: 1 << 30})
		must(t, err)
		c.key = tenants[0].APIKey
		runtime := testenv.Runtime(t, servers.RuntimeConfig{BaseURL: s.URL, Secret: strings.Repeat(fmt.Sprintf("%02x", i+1), 32), Stores: servers.StoreSettings(c.database, access),
			Env: []string{fmt.Sprintf("SERVICE_CELL=%d", c.number), "SERVICE_SMTP_HOST=" + host, "SERVICE_SMTP_PORT=" + port, "SERVICE_SMTP_TLS=none", "SERVICE_MAIL_FROM=login@media.example",
				"SERVICE_IMAGE_ENABLED=false", "SERVICE_KEY_CACHE_TTL=0s", "SERVICE_LOGIN_RESEND_AFTER=0s"}})
		c.address, s.edge.cells[c.number] = runtime.Addr, runtime.Addr
	}
	return s
}

// answer is a response.
type answer struct {
	status int
	header http.Header
	body   string
}

// send sends a request to an address. header is a list of names and values.
func (s *site) send(t *testing.T, address, method, path, body string, header ...string) answer {
	t.Helper()
	if rest, ok := strings.CutPrefix(path, s.URL); ok { // a URL that the service returned
		path = rest
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, strings.NewReader(body))
	must(t, err)
	r.Host = s.Listener.Addr().String()
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return answer{response.StatusCode, response.Header, string(text)}
}

// through sends a request through the edge, and fails unless this cell answers it with the status.
func (s *site) through(t *testing.T, c *member, status int, method, path, body string, header ...string) answer {
	t.Helper()
	got := s.send(t, s.Listener.Addr().String(), method, path, body, header...)
	if by := got.header.Get(webuser.ServedBy); got.status != status || by != c.address {
		t.Fatalf("%s %s is answered %d by %s, not %d by cell %s at %s: %s", method, path, got.status, by, status, c.number, c.address, got.body)
	}
	return got
}

type item struct {
	MediaID, File string
	Size          int64
}

func decode[T any](t *testing.T, text string) (value T) {
	t.Helper()
	must(t, json.Unmarshal([]byte(text), &value))
	return value
}

// upload stores a file in one request with a credential, and returns its draft.
func (s *site) upload(t *testing.T, c *member, access, content string, credential ...string) item {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	must(t, form.WriteField("access", access))
	file, err := form.CreateFormFile("file", "a.bin")
	must(t, err)
	_, err = file.Write([]byte(content))
	must(t, err)
	must(t, form.Close())
	made := decode[item](t, s.through(t, c, 201, http.MethodPost, "/media/create", body.String(), append(credential, "Content-Type", form.FormDataContentType())...).body)
	s.names(t, c, made.MediaID)
	return made
}

// names fails unless an id contains the number of the cell.
func (s *site) names(t *testing.T, c *member, id string) {
	t.Helper()
	if n, ok := cell.OfID(uuid.MustParse(id)); !ok || n != c.number {
		t.Fatalf("the id %s names cell %d, %t, not %d", id, n, ok, c.number)
	}
}

func TestCells_ServeOneBaseURL(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, c := range s.cells {
		t.Run("cell "+c.number.String(), func(t *testing.T) {
			key := []string{"x-service-apikey", c.key}
			if n, ok := cell.OfCredential(c.key); !ok || n != c.number {
				t.Fatalf("the key names cell %d, %t", n, ok)
			}
			private, public := s.upload(t, c, "private", "private file", key...), s.upload(t, c, "public", "public file", key...)
			signature := decode[struct{ Signature string }](t, s.through(t, c, 200, http.MethodPost, "/media/signature/create", "{}", append(key, "Content-Type", "application/json")...).body)
			signed := s.upload(t, c, "private", "signed", "x-service-signature", signature.Signature)
			for _, made := range []item{private, public, signed} {
				s.through(t, c, 200, http.MethodPost, "/media/seal/"+made.MediaID, "", key...)
			}
			resumed := s.resumable(t, c, key)
			list := decode[[]item](t, s.through(t, c, 200, http.MethodGet, "/media/get", "", key...).body)
			if len(list) != 4 || list[0].MediaID != resumed || list[3].MediaID != private.MediaID {
				t.Errorf("the list has %+v", list)
			}
			for i, content := range []string{"in two pieces", "signed", "public file", "private file"} {
				if got := s.through(t, c, 200, http.MethodGet, list[i].File, ""); got.body != content {
					t.Errorf("%s has %q", list[i].File, got.body)
				}
			}
			s.through(t, c, 200, http.MethodGet, "/media/get/"+public.MediaID, "", key...)
			s.through(t, c, 200, http.MethodDelete, "/media/delete/"+public.MediaID, "", key...)
			s.through(t, c, 404, http.MethodGet, list[2].File, "")
			s.page(t, c, key)
			s.useTools(t, c, &http.Client{Transport: with{"x-service-apikey", c.key}})
		})
	}
	for _, how := range []string{"x-service-apikey", "x-service-signature", "media id"} {
		if s.took[how] == 0 {
			t.Errorf("no request was routed by its %s: %v", how, s.took)
		}
	}
}

// resumable stores a file in two requests and seals it.
func (s *site) resumable(t *testing.T, c *member, key []string) string {
	t.Helper()
	tus := append([]string{"Tus-Resumable", "1.0.0"}, key...)
	name := base64.StdEncoding.EncodeToString([]byte("two.bin"))
	made := s.through(t, c, 201, http.MethodPost, "/media/create/resumable", "", append(tus, "Upload-Length", "13", "Upload-Metadata", "filename "+name)...)
	at := made.header.Get("Location")
	id := at[strings.LastIndex(at, "/")+1:]
	s.names(t, c, id)
	piece := append(tus, "Content-Type", "application/offset+octet-stream")
	s.through(t, c, 204, http.MethodPatch, at, "in two", append(piece, "Upload-Offset", "0")...)
	if got := s.through(t, c, 200, http.MethodHead, at, "", tus...); got.header.Get("Upload-Offset") != "6" {
		t.Errorf("the offset is %s", got.header.Get("Upload-Offset"))
	}
	s.through(t, c, 204, http.MethodPatch, at, " pieces", append(piece, "Upload-Offset", "6")...)
	s.through(t, c, 200, http.MethodPost, "/media/seal/"+id, "", key...)
	return id
}

// page uploads from a page of an origin that only this cell's account lists.
func (s *site) page(t *testing.T, c *member, key []string) {
	t.Helper()
	ask := func(origin string) string {
		return s.send(t, s.Listener.Addr().String(), http.MethodOptions, "/media/create", "", "Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-service-signature").header.Get("Access-Control-Allow-Origin")
	}
	if allowed, other := ask(c.origin), ask("https://elsewhere.example"); allowed != c.origin || other != "" {
		t.Errorf("a preflight of %s allows %q, and one of another origin %q", c.origin, allowed, other)
	}
	signature := decode[struct{ Signature string }](t, s.through(t, c, 200, http.MethodPost, "/media/signature/create", "{}", append(key, "Content-Type", "application/json")...).body)
	s.upload(t, c, "private", "from a page", "x-service-signature", signature.Signature, "Origin", c.origin)
}

// with adds a header to requests.
type with struct{ name, value string }

// RoundTrip implements http.RoundTripper.
func (w with) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(w.name, w.value)
	return http.DefaultTransport.RoundTrip(r)
}

// useTools calls tools of MCP through the edge.
func (s *site) useTools(t *testing.T, c *member, client *http.Client) {
	t.Helper()
	s.call(t, c, s.connect(t, &mcp.StreamableClientTransport{Endpoint: s.URL + "/mcp", HTTPClient: client}))
}

func (s *site) connect(t *testing.T, transport *mcp.StreamableClientTransport) *mcp.ClientSession {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "cells", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	must(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func (s *site) call(t *testing.T, c *member, session *mcp.ClientSession) {
	t.Helper()
	tool := func(name string, arguments map[string]any) map[string]any {
		t.Helper()
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
		must(t, err)
		if result.IsError {
			t.Fatalf("%s: %v", name, result.Content[0])
		}
		structured, _ := result.StructuredContent.(map[string]any)
		return structured
	}
	id, _ := tool("upload_media", map[string]any{"fileBase64": "aGFsbG8=", "fileName": "hello.txt", "mimeType": "text/plain"})["mediaId"].(string)
	s.names(t, c, id)
	for _, name := range []string{"seal_media", "get_media", "delete_media"} {
		tool(name, map[string]any{"mediaId": id})
	}
}

// What belongs to another cell is answered like what does not exist, whether the edge or the client
// sends it to the wrong one.
func TestCells_AnswerForeignIDsAndCredentialsLikeUnknownOnes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one, two := s.cells[0], s.cells[1]
	file := s.upload(t, two, "public", "of two", "x-service-apikey", two.key)
	s.through(t, two, 200, http.MethodPost, "/media/seal/"+file.MediaID, "", "x-service-apikey", two.key)
	signature := decode[struct{ Signature string }](t, s.through(t, two, 200, http.MethodPost, "/media/signature/create", "{}", "x-service-apikey", two.key, "Content-Type", "application/json").body)
	unknownID, err := one.number.NewID()
	must(t, err)
	unknownKey, err := account.NewKeySecret(one.number)
	must(t, err)
	path := strings.TrimPrefix(file.File, s.URL)
	for what, pair := range map[string][2][]string{
		"a media id":          {{"GET", "/media/get/" + file.MediaID, "x-service-apikey", one.key}, {"GET", "/media/get/" + unknownID.String(), "x-service-apikey", one.key}},
		"a media id to seal":  {{"POST", "/media/seal/" + file.MediaID, "x-service-apikey", one.key}, {"POST", "/media/seal/" + unknownID.String(), "x-service-apikey", one.key}},
		"a file":              {{"GET", path}, {"GET", strings.Replace(path, file.MediaID, unknownID.String(), 1)}},
		"a resumable upload":  {{"HEAD", "/media/create/resumable/" + file.MediaID, "x-service-apikey", one.key, "Tus-Resumable", "1.0.0"}, {"HEAD", "/media/create/resumable/" + unknownID.String(), "x-service-apikey", one.key, "Tus-Resumable", "1.0.0"}},
		"a key":               {{"GET", "/media/get", "x-service-apikey", two.key}, {"GET", "/media/get", "x-service-apikey", unknownKey.Reveal()}},
		"an upload signature": {{"POST", "/media/create", "x-service-signature", signature.Signature}, {"POST", "/media/create", "x-service-signature", "mus_000" + signature.Signature[7:]}},
		"an access token":     {{"GET", "/media/get", "Authorization", "Bearer mat_a0b" + strings.Repeat("x", 43)}, {"GET", "/media/get", "Authorization", "Bearer mat_000" + strings.Repeat("x", 43)}},
	} {
		foreign, unknown := s.send(t, one.address, pair[0][0], pair[0][1], "", pair[0][2:]...), s.send(t, one.address, pair[1][0], pair[1][1], "", pair[1][2:]...)
		if foreign.status != unknown.status || foreign.status < 400 || foreign.body != unknown.body {
			t.Errorf("%s of another cell is answered %d %q, an unknown one %d %q", what, foreign.status, foreign.body, unknown.status, unknown.body)
		}
		for _, header := range []string{"WWW-Authenticate", "Cache-Control", "Content-Type"} {
			if foreign.header.Get(header) != unknown.header.Get(header) {
				t.Errorf("%s of another cell is answered with %s: %s, an unknown one with %s", what, header, foreign.header.Get(header), unknown.header.Get(header))
			}
		}
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server", "/openapi.json"} {
		if a, b := s.send(t, one.address, "GET", path, ""), s.send(t, two.address, "GET", path, ""); a.status != 200 || a.body != b.body {
			t.Errorf("%s is %d %s at one cell, and %d %s at another", path, a.status, a.body, b.status, b.body)
		}
	}
}

// expire ends every access token of a cell.
func (c *member) expire(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.database)
	must(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	_, err = conn.Exec(t.Context(), "UPDATE oauth_token SET expires_at = now() WHERE NOT refresh")
	must(t, err)
}

// callbackServer is the redirect URI of an application.
func callbackServer(t *testing.T, handle func(r *http.Request)) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { handle(r) }))
	t.Cleanup(server.Close)
	return server
}
