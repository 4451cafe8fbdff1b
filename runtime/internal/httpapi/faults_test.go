package httpapi_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/mcp"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/internal/rest"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/tus"
	"mediastack.dev/runtime/settings"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// service is a runtime with REST, TUS and MCP on real stores.
type service struct {
	t      *testing.T
	client *http.Client
}

func start(t *testing.T, w *runtimetest.Env, limitCfg ratelimit.Config) *service {
	t.Helper()
	credentials := runtimetest.Credentials("a")
	credentials.Resource, credentials.MetadataURL, credentials.KeyCacheTTL = runtimetest.BaseURL+"/mcp", runtimetest.BaseURL+"/metadata", 0
	serverCfg := runtimetest.ServerConfig()
	serverCfg.Brand = "service"
	core := w.Core(t, runtimetest.CoreConfig{Server: serverCfg, Media: runtimetest.MediaConfig(), Upload: runtimetest.UploadConfig(), Limits: limitCfg, Auth: credentials, Now: time.Now})
	routes, err := rest.New(rest.Config{BaseURL: runtimetest.BaseURL, Brand: "service"}, rest.Deps{Media: core.Media, Items: core.Items, Uploads: core.Uploads, Settings: w.Settings, Auth: core.Auth, Documents: core.Documents, Events: core.Events})
	must(t, err)
	locks := w.Store.Uploads.UploadLocks(core.Logs.Logger())
	uploads, err := tus.New(tus.Config{LockTimeout: 5 * time.Minute}, tus.Deps{Uploads: core.Uploads, Auth: core.Auth, Documents: core.Documents, Locks: locks, BaseURL: runtimetest.BaseURL, Brand: "service"})
	must(t, err)
	tools, err := mcp.New(mcp.Config{BaseURL: runtimetest.BaseURL, Version: "test"}, mcp.Deps{Media: core.Media, Items: core.Items, Uploads: core.Uploads, Settings: w.Settings, Activity: core.Activity, Auth: core.Auth, Documents: core.Documents, Limits: core.Limits})
	must(t, err)
	replica := core.Serve(t, nil, []func(chi.Router){routes.Mount, uploads.Mount, tools.Mount}, locks.Run)
	return &service{t: t, client: replica.Client}
}

// credential is a header that authenticates.
type credential [2]string

func key(k string) credential       { return credential{"x-service-apikey", k} }
func bearer(k string) credential    { return credential{"Authorization", "Bearer " + k} }
func signature(s string) credential { return credential{"x-service-signature", s} }

// outcome is the response of an interface to a fault. The status of a tool's result is always 200, as
// the protocol requires.
type outcome struct {
	status     int
	code, text string
}

func (s *service) send(method, path string, with credential, body io.Reader, headers ...string) (int, []byte) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, runtimetest.BaseURL+path, body)
	must(s.t, err)
	r.Header.Set(with[0], with[1])
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := s.client.Do(r)
	must(s.t, err)
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	must(s.t, err)
	return got.StatusCode, text
}

func (s *service) rest(method, path string, with credential, body io.Reader, headers ...string) outcome {
	s.t.Helper()
	status, text := s.send(method, path, with, body, headers...)
	var answer api.Error
	if json.Unmarshal(text, &answer) != nil {
		s.t.Errorf("%s %s: %d %s", method, path, status, text)
	}
	return outcome{status, string(answer.Code), answer.Detail}
}

func (s *service) upload(with credential, data []byte) outcome {
	s.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "a.bin")
	must(s.t, err)
	_, _ = part.Write(data)
	must(s.t, form.Close())
	return s.rest(http.MethodPost, api.UploadRoute, with, &body, "Content-Type", form.FormDataContentType())
}

func (s *service) tus(with credential, length int, metadata ...string) outcome {
	s.t.Helper()
	headers := []string{"Tus-Resumable", "1.0.0", "Upload-Length", strconv.Itoa(length)}
	if len(metadata) == 2 {
		headers = append(headers, "Upload-Metadata", metadata[0]+" "+base64.StdEncoding.EncodeToString([]byte(metadata[1])))
	}
	return s.rest(http.MethodPost, api.ResumableRoute, with, nil, headers...)
}

func (s *service) tool(with credential, name string, arguments map[string]any) outcome {
	s.t.Helper()
	call, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": name, "arguments": arguments}})
	must(s.t, err)
	status, text := s.send(http.MethodPost, api.ToolsRoute, with, bytes.NewReader(call), "Content-Type", "application/json", "Accept", "application/json, text/event-stream")
	var answer struct {
		Error *struct {
			Message string
			Data    struct{ Code string }
		}
		Result struct {
			IsError bool
			Meta    map[string]any `json:"_meta"`
			Content []struct{ Text string }
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		s.t.Fatalf("%s: %d %s", name, status, text)
	}
	if answer.Error != nil {
		return outcome{status, answer.Error.Data.Code, answer.Error.Message}
	}
	if !answer.Result.IsError {
		s.t.Fatalf("%s: %d %s", name, status, text)
	}
	code, _ := answer.Result.Meta["mediastack.dev/code"].(string)
	return outcome{status, code, answer.Result.Content[0].Text}
}

// The same fault has the same status, code and text on every interface. A tool adds a hint for
// the model behind the text.
func TestFault_IsTheSameOnEveryInterface(t *testing.T) {
	t.Parallel()
	w := runtimetest.New(t)
	s := start(t, w, ratelimit.Config{})
	tenant := func(name string, change func(*account.Spec)) runtimetest.Tenant {
		spec := account.Spec{Name: name, MaxStorage: 64 << 20, MaxUploadSize: 32 << 20}
		change(&spec)
		return w.Tenant(t, spec)
	}
	unchanged := func(*account.Spec) {}
	one := tenant("one", unchanged)
	small := tenant("small", func(s *account.Spec) { s.MaxStorage, s.MaxUploadSize = 1000, 1000 })
	short := tenant("short", func(s *account.Spec) { s.MaxUploadSize = 1000 })
	lost := tenant("lost", unchanged)
	must(t, w.Registry.SetBucketOwned(t.Context(), lost.Account.ID, false))
	pinned := tenant("pinned", unchanged)
	quality := 40
	must(t, w.Settings.Pin(t.Context(), pinned.Account.ID, settings.Layer{WebPOutputQuality: &quality}, settings.Object{Name: "team/site", UID: "uid of team/site"}))
	reader := w.Session(t, tenant("reader", unchanged), auth.ScopeRead)
	restricted := tenant("restricted", func(s *account.Spec) { s.ToolPolicy.Tools = []string{} })
	connected := w.Session(t, restricted, auth.ScopeRead, auth.ScopeWrite)
	id, file := uuid.NewString(), func(n int) map[string]any {
		return map[string]any{"fileBase64": base64.StdEncoding.EncodeToString(make([]byte, n)), "fileName": "a.bin", "mimeType": "application/octet-stream"}
	}
	for name, tt := range map[string]struct {
		want     outcome // the text may be a substring
		rest     outcome
		tus, mcp *outcome
	}{
		"an unknown key": {outcome{401, "unauthorized", "invalid API key"}, s.rest(http.MethodGet, api.ListRoute, key("msk_x"), nil),
			ref(s.tus(key("msk_x"), 1)), ref(s.tool(key("msk_x"), "list_media", nil))},
		"an unknown token": {outcome{401, "unauthorized", "invalid or expired access token"}, s.rest(http.MethodGet, api.ListRoute, bearer("x"), nil),
			ref(s.tus(bearer("x"), 1)), ref(s.tool(bearer("x"), "list_media", nil))},
		"a scope that is missing": {outcome{403, "forbidden", "insufficient scope: media:write required"}, s.rest(http.MethodPost, "/media/seal/"+id, bearer(reader), nil),
			ref(s.tus(bearer(reader), 1)), ref(s.tool(bearer(reader), "seal_media", map[string]any{"mediaId": id}))},
		"a tool that the policy does not allow": {outcome{403, "forbidden", "upload_media is not allowed for assistants and connected applications in this account"}, s.upload(bearer(connected), []byte("x")),
			ref(s.tus(bearer(connected), 1)), ref(s.tool(bearer(connected), "upload_media", file(1)))},
		"an invalid signature": {outcome{403, "invalid_signature", "invalid upload signature"}, s.upload(signature("x.y"), []byte("x")), ref(s.tus(signature("x.y"), 1)), nil},
		"an invalid field":     {outcome{400, "invalid_request", "access must be public or private"}, s.rest(http.MethodGet, api.ListRoute+"?access=x", key(one.Key), nil), ref(s.tus(key(one.Key), 1, "access", "x")), ref(s.tool(key(one.Key), "list_media", map[string]any{"access": "x"}))},
		"an unknown item":      {outcome{404, "not_found", "media item not found"}, s.rest(http.MethodGet, "/media/get/"+id, key(one.Key), nil), nil, ref(s.tool(key(one.Key), "get_media", map[string]any{"mediaId": id}))},
		"a pinned setting": {outcome{409, "conflict", "webpOutputQuality: pinned by MediaSettings team/site"}, s.rest(http.MethodPost, api.UpdateSettingsRoute, key(pinned.Key), strings.NewReader(`{"webpOutputQuality":1}`)), nil,
			ref(s.tool(key(pinned.Key), "update_media_settings", map[string]any{"webpOutputQuality": 1}))},
		"a file that is too large": {outcome{413, "payload_too_large", ""}, s.upload(key(short.Key), make([]byte, 2000)), ref(s.tus(key(short.Key), 2000)), ref(s.tool(key(short.Key), "upload_media", file(2000)))},
		"a cap that is exceeded":   {outcome{413, "storage_cap_exceeded", ""}, s.twice(small, func() outcome { return s.upload(key(small.Key), make([]byte, 900)) }), ref(s.tus(key(small.Key), 900)), ref(s.tool(key(small.Key), "upload_media", file(900)))},
		"a bucket that is lost":    {outcome{503, "unavailable", ""}, s.upload(key(lost.Key), []byte("x")), ref(s.tus(key(lost.Key), 1)), ref(s.tool(key(lost.Key), "upload_media", file(1)))},
	} {
		if tt.rest.status != tt.want.status || tt.rest.code != tt.want.code || tt.rest.text == "" || !strings.Contains(tt.rest.text, tt.want.text) {
			t.Errorf("%s, REST: %+v, want %+v", name, tt.rest, tt.want)
		}
		if tt.tus != nil && *tt.tus != tt.rest {
			t.Errorf("%s, TUS: %+v, REST has %+v", name, *tt.tus, tt.rest)
		}
		if tt.mcp == nil {
			continue
		}
		if sameStatus := tt.mcp.status == http.StatusOK || tt.mcp.status == tt.rest.status; !sameStatus || tt.mcp.code != tt.rest.code || !strings.HasPrefix(tt.mcp.text, tt.rest.text) {
			t.Errorf("%s, MCP: %+v, REST has %+v", name, *tt.mcp, tt.rest)
		}
	}
}

// A limit is a fault of the middleware, before any interface.
func TestFault_OfALimitIsTheSameOnEveryInterface(t *testing.T) {
	t.Parallel()
	w := runtimetest.New(t)
	s := start(t, w, ratelimit.Config{Key: 0.01, KeyBurst: 1})
	one := w.Tenant(t, account.Spec{Name: "one", MaxStorage: 1 << 20, MaxUploadSize: 1 << 20})
	want := outcome{http.StatusTooManyRequests, "too_many_requests", "too many requests"}
	for range 3 { // the burst, and the next request
		_, _ = s.send(http.MethodGet, api.ListRoute, key(one.Key), nil)
	}
	for name, got := range map[string]outcome{
		"REST": s.rest(http.MethodGet, api.ListRoute, key(one.Key), nil), "TUS": s.tus(key(one.Key), 1), "MCP": s.tool(key(one.Key), "list_media", nil),
	} {
		if got != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// twice fills an account with a first upload, so that a second one exceeds its cap.
func (s *service) twice(of runtimetest.Tenant, upload func() outcome) outcome {
	s.t.Helper()
	_, _ = s.send(http.MethodPost, api.ResumableRoute, key(of.Key), nil, "Tus-Resumable", "1.0.0", "Upload-Length", "900")
	return upload()
}

func ref(o outcome) *outcome { return &o }

var must = check.NoError
