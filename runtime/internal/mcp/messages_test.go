package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"mediastack.dev/runtime/fault"
)

// FuzzMessages checks that the SDK decodes every message that readMessages accepts, that ids are
// unchanged and unique in the batch, and that rejections show nothing internal.
func FuzzMessages(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":1.0,"method":"ping"}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":"1","method":"ping"}]`, `{"jsonrpc":"2.0","id":1,"method":"ping"}{}`,
		`{"jsonrpc":"2.0","id":"\ud800","method":"ping"}`, `{"jsonrpc":"2.0","id":9223372036854775808,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, `[]`, `{}`, `null`, `1`, ``,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}]`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}`, `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":-0,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":"media/burn"}`, `{"jsonrpc":"2.0","method":"media/burn"}`, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if bytes.Count(body, []byte{'['})+bytes.Count(body, []byte{'{'}) > maxDepth {
			return // may be too deep, which extractFiles rejects
		}
		messages, batch, err := readMessages(body)
		if err != nil {
			rejected(t, body, err)
			return
		}
		if len(messages) == 0 || len(messages) > 1 && !batch {
			t.Fatalf("%q has %d messages", body, len(messages))
		}
		seen := map[any]bool{}
		for _, m := range messages {
			if !m.isRequest() {
				continue // the SDK does not see it
			}
			if err := m.validateParams(); err != nil {
				rejected(t, body, err)
				continue
			}
			read, err := jsonrpc.DecodeMessage(m.text)
			if err != nil {
				t.Fatalf("%q: the SDK says %v", m.text, err)
			}
			call, ok := read.(*jsonrpc.Request)
			if !ok || !call.IsCall() || call.Method != m.method {
				t.Fatalf("%q: the SDK reads %+v", m.text, read)
			}
			if seen[call.ID.Raw()] {
				t.Fatalf("%q has an id twice", body)
			}
			seen[call.ID.Raw()] = true
			back, err := json.Marshal(call.ID.Raw())
			if err != nil || !sameValue(back, m.id) {
				t.Fatalf("%q: the id is returned as %s: %v", m.text, back, err)
			}
		}
	})
}

// rejected checks that an error is the client's, has a JSON-RPC code, and names nothing
// of the implementation.
func rejected(t *testing.T, body []byte, err error) {
	t.Helper()
	var rejection rpcError
	if !errors.As(err, &rejection) || !fault.Is(err, fault.Invalid) || rejection.code == 0 {
		t.Fatalf("%q: %v", body, err)
	}
	if public := fault.From(err).Public; public == "" || strings.Contains(public, "mcp.") || strings.Contains(public, "json:") {
		t.Fatalf("%q: the error is %q", body, public)
	}
}

// sameValue compares two strings or two numbers, exactly.
func sameValue(one, other []byte) bool {
	var texts [2]string
	if json.Unmarshal(one, &texts[0]) == nil && json.Unmarshal(other, &texts[1]) == nil {
		return texts[0] == texts[1]
	}
	first, ok := new(big.Rat).SetString(string(one))
	second, also := new(big.Rat).SetString(string(other))
	return ok && also && first.Cmp(second) == 0
}

func TestReadMessages_RejectDuplicateFieldsInParams(t *testing.T) {
	t.Parallel()
	for params, name := range map[string]string{
		`{"name":"get_media_count","name":"upload_media"}`:                                         "name",
		`{"name":"upload_media","arguments":{},"arguments":{"fileName":"x"}}`:                      "arguments",
		`{"name":"update_media_settings","arguments":{"thumbnailWidth":99999,"thumbnailWidth":7}}`: "thumbnailWidth",
		`{"name":"get_media_count","arguments":{},"_meta":{"a":[{"b":1,"b":2}]}}`:                  "b",
		`{"name":"get_media_count","arguments":{"\u0061":1,"a":2}}`:                                "a",
	} {
		_, _, err := readMessages([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`))
		var rejection rpcError
		if !errors.As(err, &rejection) || rejection.code != jsonrpc.CodeInvalidRequest || string(rejection.id) != "1" || !strings.Contains(err.Error(), strconv.Quote(name)) {
			t.Errorf("%s is answered %v", params, err)
		}
	}
	if _, _, err := readMessages([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"a":1,"A":2,"b":{"a":1}}}}`)); err != nil {
		t.Errorf("names in another case or object are answered %v", err)
	}
}
