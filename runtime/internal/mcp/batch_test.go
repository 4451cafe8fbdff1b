package mcp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// inside matches words of the implementation, which no answer may contain.
var inside = regexp.MustCompile(`(?i)json:|jsonrpc2|\bmcp\.|\*mcp|unmarshal|struct |goroutine|context canceled`)

// Each of these bodies contains a call that would delete the draft.
func TestBody_WithAMalformedMessageIsRejectedAsAWhole(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	draft := rt.upload(t, one.Key, "one.bin", []byte("one"))
	remove := func(id string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"delete_media","arguments":{"mediaId":%q}}}`, id, draft)
	}
	ping := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` }
	call := func(params string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":` + params + `}`
	}
	const parse, request, params = -32700, -32600, -32602
	for name, tt := range map[string]struct {
		body string
		code int
		id   string // of the error response
		says string
	}{
		"an id twice":                      {"[" + remove("1") + "," + ping("1") + "]", request, "null", "two requests of the batch have the id 1"},
		"an id twice, apart":               {"[" + ping("1") + "," + ping("2") + "," + remove("1") + "]", request, "null", "id 1"},
		"an id in two forms":               {"[" + remove("1") + "," + ping("1.0") + "]", request, "null", "id 1.0"},
		"an id of text in two forms":       {"[" + remove(`"a"`) + "," + ping(`"\u0061"`) + "]", request, "null", "two requests"},
		"an id that is broken":             {remove("1.5"), request, "null", "the id must be"},
		"an id of 2^63":                    {remove("9223372036854775808"), request, "null", "the id must be"},
		"an id of 2^53":                    {remove("9007199254740992"), request, "null", "the id must be"},
		"an id of -2^53":                   {remove("-9007199254740992"), request, "null", "the id must be"},
		"an id with an exponent":           {remove("1e3"), request, "null", "the id must be"},
		"an id that is a word":             {remove("true"), request, "null", "the id must be"},
		"an id that is an object":          {remove(`{"a":1}`), request, "null", "the id must be"},
		"an id that is a list":             {remove("[1]"), request, "null", "the id must be"},
		"an id of half a character":        {remove(`"\ud800"`), request, "null", "valid characters"},
		"an id that is broken, in a batch": {"[" + remove("1") + "," + ping("1.5") + "]", request, "null", "the id must be"},
		"another value behind it":          {remove("1") + "\n{}", parse, "null", "exactly one JSON value"},
		"words behind it":                  {remove("1") + "x", parse, "null", "exactly one JSON value"},
		"a bracket behind it":              {remove("1") + "]", parse, "null", "exactly one JSON value"},
		"another value behind a batch":     {"[" + remove("1") + "][]", parse, "null", "exactly one JSON value"},
		"a name in upper case":             {"[" + remove("1") + `,{"jsonrpc":"2.0","id":2,"METHOD":"ping"}]`, request, "null", "must have a method"},
		"only a name in upper case":        {`{"jsonrpc":"2.0","id":2,"METHOD":"ping"}`, request, "2", "must have a method"},
		"neither a call nor an answer":     {`{"jsonrpc":"2.0","id":2}`, request, "2", "must have a method"},
		"both answers at once":             {`{"jsonrpc":"2.0","id":2,"result":{},"error":{"code":1,"message":"x"}}`, request, "2", "must have a method"},
		"an error that is none":            {`{"jsonrpc":"2.0","id":2,"error":5}`, request, "2", "must have a method"},
		"an answer to nothing":             {`{"jsonrpc":"2.0","result":{}}`, request, "null", "must have a method"},
		"no version":                       {`{"id":2,"method":"ping"}`, request, "2", "jsonrpc must be"},
		"another version":                  {"[" + remove("1") + `,{"jsonrpc":"1.0","id":2,"method":"ping"}]`, request, "null", "jsonrpc must be"},
		"a version that is a number":       {`{"jsonrpc":2.0,"id":2,"method":"ping"}`, request, "2", "jsonrpc must be"},
		"a method that is a number":        {`{"jsonrpc":"2.0","id":2,"method":5}`, request, "2", "method must be"},
		"an empty method":                  {`{"jsonrpc":"2.0","id":2,"method":""}`, request, "2", "method must be"},
		"a field twice":                    {strings.Replace(remove("1"), `"id":1`, `"id":1,"id":2`, 1), request, "null", `duplicate field "id"`},
		"a number in a batch":              {"[" + remove("1") + ",5]", request, "null", "must be a JSON object"},
		"a batch in a batch":               {"[" + remove("1") + ",[]]", request, "null", "must be a JSON object"},
		"a number":                         {"5", request, "null", "must be a JSON object"},
		"an empty batch":                   {"[]", request, "null", "the batch is empty"},
		"half a character":                 {call(`{"name":"delete_media","arguments":{"mediaId":"\ud800"}}`), request, "7", "half a character"},
		"parameters that are a list":       {call("[]"), params, "7", "params of tools/call"},
		"parameters that are a number":     {call("5"), params, "7", "params of tools/call"},
		"a tool that is a number":          {call(`{"name":5}`), params, "7", "name of tools/call has the wrong type"},
		"_meta that is a number":           {call(`{"name":"get_media_count","_meta":5}`), params, "7", "_meta of tools/call has the wrong type"},
		"a cursor that is a number":        {`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":5}}`, params, "7", "cursor of tools/list"},
		"a revision that is a number":      {`{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":5}}`, params, "7", "protocolVersion of initialize"},
	} {
		got := rt.post(t, tt.body, apiKey(one.Key), header("Mcp-Protocol-Version", "2025-03-26"))
		var response struct {
			JSONRPC string
			ID      json.RawMessage
			Error   struct {
				Code    int
				Message string
			}
		}
		if err := json.Unmarshal(got.Body, &response); err != nil || got.Status != http.StatusBadRequest || response.JSONRPC != "2.0" || string(response.ID) != tt.id ||
			response.Error.Code != tt.code || !strings.Contains(response.Error.Message, tt.says) || inside.Match(got.Body) {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
		if n := w.QueryInt(t, `SELECT count(*) FROM item`); n != 1 {
			t.Fatalf("%s: the draft is gone", name)
		}
	}
}

// The SDK writes the errors of these bodies.
func TestSDKErrors_ShowNothingInternal(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	for name, body := range map[string]string{
		"no id":               `{"jsonrpc":"2.0","method":"ping"}`,
		"a notification's id": `{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}`,
		"no parameters":       `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`,
		"null for parameters": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":null}`,
		"no revision":         `{"jsonrpc":"2.0","id":1,"method":"initialize"}`,
		"null for a revision": `{"jsonrpc":"2.0","id":1,"method":"initialize","params":null}`,
		"an unknown method":   `{"jsonrpc":"2.0","id":1,"method":"media/burn"}`,
		"an unknown cursor":   `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`,
		"lists without end":   `{"jsonrpc":"2.0","id":1,"method":"ping","x":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`,
	} {
		got := rt.post(t, body, apiKey(one.Key))
		if !bytes.Contains(got.Body, []byte("error")) && got.Status == http.StatusOK || inside.Match(got.Body) {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
	}
}

func TestRequestID_IsReturnedUnchanged(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	for id, want := range map[string]string{
		"1": "1", "0": "0", "-5": "-5", "9007199254740991": "9007199254740991", "-9007199254740991": "-9007199254740991",
		"1.0": "1", `"a"`: `"a"`, `""`: `""`, `"1"`: `"1"`, `"\u00fc\n😀"`: `"ü\n😀"`, `"\ud83d\ude00"`: `"😀"`,
	} {
		got := rt.post(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`, apiKey(one.Key))
		var response struct{ ID json.RawMessage }
		if err := json.Unmarshal(got.Body, &response); err != nil || got.Status != http.StatusOK || string(response.ID) != want {
			t.Errorf("%s: %d %s", id, got.Status, got.Body)
		}
	}
}

// The service keeps no sessions, so a cancellation can only concern its own batch. The SDK would
// answer "context canceled".
func TestCancellation_InABatchHasNoEffect(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	old := header("Mcp-Protocol-Version", "2025-03-26")
	const count = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_media_count"}}`
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"no"}}`
	for range 20 { // the SDK cancels in another goroutine
		for _, body := range []string{"[" + count + "," + cancel + "]", "[" + cancel + "," + count + "]"} {
			got := rt.post(t, body, apiKey(one.Key), old)
			if got.Status != http.StatusOK || !bytes.Contains(got.Body, []byte(`"structuredContent":{"count":0}`)) || inside.Match(got.Body) {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
		}
	}
	for _, body := range []string{cancel, "[" + cancel + "]", "[" + cancel + "," + cancel + "]", `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":null,"method":"notifications/initialized"}`} {
		if got := rt.post(t, body, apiKey(one.Key), old); got.Status != http.StatusAccepted || len(got.Body) != 0 {
			t.Errorf("%s: %d %s", body, got.Status, got.Body)
		}
	}
}
