package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
)

var must = check.NoError

func fail(info *RequestInfo, err error) (*httptest.ResponseRecorder, api.Error) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	w := httptest.NewRecorder()
	WriteError(w, r.WithContext(NewContext(r.Context(), info)), err)
	var body api.Error
	_ = json.Unmarshal(w.Body.Bytes(), &body)
	return w, body
}

func TestWriteError_EveryKindHasItsStatusCodeAndText(t *testing.T) {
	t.Parallel()
	for kind, want := range map[fault.Kind]struct {
		status      int
		text, fewer string
		code        api.ErrorCode
	}{
		fault.Internal:         {500, "Internal Server Error", "Internal Server Error", "internal_error"},
		fault.FileLost:         {500, "Internal Server Error", "Internal Server Error", "file_lost"},
		fault.Invalid:          {400, "Bad Request", "Bad Request", "invalid_request"},
		fault.Unauthenticated:  {401, "Unauthorized", "Unauthorized", "unauthorized"},
		fault.InvalidSignature: {403, "Invalid signature", "Invalid signature", "invalid_signature"},
		fault.NotFound:         {404, "Not Found", "Bad Request", "not_found"},
		fault.Conflict:         {409, "Conflict", "Bad Request", "conflict"},
		fault.Gone:             {410, "Gone", "Bad Request", "gone"},
		fault.TooLarge:         {413, "Request Entity Too Large", "Bad Request", "payload_too_large"},
		fault.QuotaExceeded:    {413, "Request Entity Too Large", "Bad Request", "storage_cap_exceeded"},
		fault.UnsupportedType:  {415, "Unsupported Media Type", "Bad Request", "unsupported_media_type"},
		fault.Busy:             {429, "Too Many Requests", "Bad Request", "too_many_requests"},
		fault.Unavailable:      {503, "Service Unavailable", "Internal Server Error", "unavailable"},
	} {
		w, body := fail(&RequestInfo{}, fault.New(kind, "public"))
		if w.Code != want.status || body.Error != want.text || body.Code != want.code || !body.Code.Valid() {
			t.Errorf("%s: %d %q %q", kind, w.Code, body.Error, body.Code)
		}
		few := NewRequestInfo(httptest.NewRequest(http.MethodPost, api.UploadRoute, nil), "", netip.Addr{})
		if w, body := fail(few, fault.New(kind, "public")); w.Code != want.status || body.Error != want.fewer {
			t.Errorf("%s on the upload: %d %q", kind, w.Code, body.Error)
		}
		if detail := body.Detail; (detail == "public") == (kind == fault.Internal) {
			t.Errorf("%s: detail %q", kind, detail)
		}
		if (w.Header().Get("Retry-After") != "") != (kind == fault.Busy || kind == fault.Unavailable) {
			t.Errorf("%s: Retry-After %q", kind, w.Header().Get("Retry-After"))
		}
	}
}

// Clients of the MCP endpoint parse JSON-RPC, so every error there has this form.
func TestWriteError_OnTheToolsRouteIsJSONRPC(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err    error
		status int
		body   string
	}{
		{fault.New(fault.Unauthenticated, "send a key"), 401, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"send a key","data":{"code":"unauthorized"}}}`},
		{&fault.Error{Kind: fault.Busy}, 429, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Too Many Requests","data":{"code":"too_many_requests"}}}`},
		{fault.New(fault.Unavailable, "no database"), 503, `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"no database","data":{"code":"unavailable"}}}`},
		{errors.New("secret"), 500, `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"` + internalDetail + `","data":{"code":"internal_error"}}}`},
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodPut} {
			w, _ := fail(NewRequestInfo(httptest.NewRequest(method, api.ToolsRoute+"?x=y", nil), "", netip.Addr{}), tt.err)
			if got := strings.TrimSpace(w.Body.String()); w.Code != tt.status || got != tt.body {
				t.Errorf("%v: %d %s", tt.err, w.Code, got)
			}
		}
	}
}

func TestWriteError_ShowsNothingInternal(t *testing.T) {
	t.Parallel()
	info := &RequestInfo{}
	cause := errors.New("password=hunter2 at 10.0.0.1")
	for _, err := range []error{cause, fault.Wrap(cause, fault.Unavailable, "the database can't be reached"), fault.Wrap(cause, fault.Internal, "secret plan")} {
		w, _ := fail(info, err)
		if text := w.Body.String(); strings.Contains(text, "hunter2") || strings.Contains(text, "secret") {
			t.Errorf("the answer is %s", text)
		}
		if !errors.Is(info.Err(), cause) {
			t.Error("the info lost the cause")
		}
	}
}

// Clients that were answered in the same second once came back in the same second, and were answered 429.
func TestRetryAfter_IsSpreadOverWholeSeconds(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration][2]int{0: {5, 10}, time.Millisecond: {1, 2}, 1500 * time.Millisecond: {2, 4}, 10 * time.Second: {10, 20}, time.Hour: {3600, 3610}} {
		for _, kind := range []fault.Kind{fault.Busy, fault.Unavailable} {
			seen := map[int]bool{}
			for range 200 {
				err := &fault.Error{Kind: kind, RetryAfter: wait}
				answered, _ := fail(&RequestInfo{}, err)
				page, oauth := httptest.NewRecorder(), httptest.NewRecorder()
				Fail(page, httptest.NewRequest(http.MethodGet, "/account/files", nil), err)
				WriteOAuthError(oauth, httptest.NewRequest(http.MethodPost, "/oauth/token", nil), http.StatusBadRequest, "invalid_grant", err)
				for _, header := range []http.Header{answered.Header(), page.Header(), oauth.Header()} {
					seconds, err := strconv.Atoi(header.Get("Retry-After"))
					if err != nil || seconds < want[0] || seconds > want[1] {
						t.Fatalf("%s: Retry-After %q, want from %d to %d", wait, header.Get("Retry-After"), want[0], want[1])
					}
					seen[seconds] = true
				}
			}
			if len(seen) != want[1]-want[0]+1 {
				t.Errorf("%s, %s: only the seconds %v are answered", wait, kind, seen)
			}
		}
	}
}

// Every code of the OpenAPI document is returned for some error, and no other code is.
func TestDescribe_GivesEveryCodeOfTheOpenAPIDocument(t *testing.T) {
	t.Parallel()
	given := map[api.ErrorCode]bool{}
	for _, kind := range []fault.Kind{fault.Internal, fault.InvalidSignature, fault.QuotaExceeded, fault.FileLost} {
		given[Describe(fault.New(kind, "")).Body.Code] = true
	}
	for status, code := range errorCodes {
		if got := DescribeStatus(status, fault.New(fault.Invalid, "")).Body.Code; got != code {
			t.Errorf("%d: %q, want %q", status, got, code)
		}
		given[code] = true
	}
	text, err := api.RenderSpec("http://media.test", "service")
	must(t, err)
	var document struct {
		Components struct {
			Schemas struct {
				ErrorCode struct{ Enum []api.ErrorCode }
			}
		}
	}
	must(t, json.Unmarshal(text, &document))
	want := document.Components.Schemas.ErrorCode.Enum
	for _, code := range want {
		if !given[code] {
			t.Errorf("%s is never given", code)
		}
	}
	if len(given) != len(want) {
		t.Errorf("given are %v, the document has %v", given, want)
	}
}

// OAuth defines its error object. Status, text and Retry-After of other faults are those of every
// interface.
func TestWriteOAuthError_HasTheStatusAndTextOfEveryInterface(t *testing.T) {
	t.Parallel()
	for err, code := range map[error]string{
		fault.New(fault.Busy, "busy"):                    "temporarily_unavailable",
		fault.New(fault.Unavailable, "no database"):      "temporarily_unavailable",
		errors.New("secret"):                             "server_error",
		fault.New(fault.Invalid, "the code was used"):    "invalid_grant",
		fault.New(fault.NotFound, "no such client here"): "invalid_grant",
	} {
		want, body := fail(&RequestInfo{}, err)
		r := httptest.NewRequest(http.MethodPost, "/oauth/token", nil)
		got := httptest.NewRecorder()
		WriteOAuthError(got, r, http.StatusBadRequest, "invalid_grant", err)
		var object struct {
			Error       string `json:"error"`
			Description string `json:"error_description"`
		}
		_ = json.Unmarshal(got.Body.Bytes(), &object)
		status := want.Code
		if code == "invalid_grant" {
			status = http.StatusBadRequest
		}
		if got.Code != status || object.Error != code || object.Description != body.Detail || (got.Header().Get("Retry-After") == "") != (want.Header().Get("Retry-After") == "") {
			t.Errorf("%v: %d %s, want %d %q", err, got.Code, got.Body, want.Code, body.Detail)
		}
	}
}

// A client that closes its side of the connection and reads on was told that the database did not respond, without a text.
func TestWriteError_SaysThatTheClientHasClosedTheConnection(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	w := httptest.NewRecorder()
	WriteError(w, r.WithContext(NewContext(gone, &RequestInfo{})), fault.New(fault.Unavailable, "the database did not respond in time"))
	var body api.Error
	must(t, json.Unmarshal(w.Body.Bytes(), &body))
	if w.Code != StatusClientClosedRequest || body.Error != "Client Closed Request" || body.Code != api.ErrorCodeClientClosedRequest || !strings.Contains(body.Detail, "keep it open") {
		t.Errorf("%d %+v", w.Code, body)
	}
	// Answers of another form were errors of the service.
	r = r.WithContext(NewContext(gone, &RequestInfo{}))
	unavailable := fault.New(fault.Unavailable, "the database did not respond in time")
	if status := Fail(w, r, unavailable); status != StatusClientClosedRequest || FromContext(r.Context()).Err() == nil {
		t.Errorf("the status of a page is %d", status)
	}
	if status := Fail(w, r, fault.New(fault.Invalid, "the body is incomplete")); status != http.StatusBadRequest {
		t.Errorf("the status of a page about an error of the client is %d", status)
	}
	w = httptest.NewRecorder()
	if WriteOAuthError(w, r, http.StatusBadRequest, "invalid_grant", unavailable); w.Code != StatusClientClosedRequest {
		t.Errorf("the status of an OAuth error is %d", w.Code)
	}
}
