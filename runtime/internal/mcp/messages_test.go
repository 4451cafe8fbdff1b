package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"mediastack.dev/runtime/fault"
)

// FuzzMessages holds the reader to this: what it lets through, the SDK reads, with ids
// that come back as they were and are no other's in the batch; what it refuses, it
// refuses in words of our own.
func FuzzMessages(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":1.0,"method":"ping"}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":"1","method":"ping"}]`, `{"jsonrpc":"2.0","id":1,"method":"ping"}{}`,
		`{"jsonrpc":"2.0","id":"\ud800","method":"ping"}`, `{"jsonrpc":"2.0","id":9223372036854775808,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, `[]`, `{}`, `null`, `1`, ``,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}]`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}`, `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":-0,"method":"ping"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if bytes.Count(body, []byte{'['})+bytes.Count(body, []byte{'{'}) > depthLimit {
			return // may be too deep, which lift refuses
		}
		rest, messages, err := readMessages(body)
		count := len(messages)
		if err != nil {
			var told invalid
			if !errors.As(err, &told) || !fault.Is(err, fault.Invalid) || told.code == 0 {
				t.Fatalf("%q: %v", body, err)
			}
			if public := fault.Of(err).Public; public == "" || strings.Contains(public, "mcp.") || strings.Contains(public, "json:") {
				t.Fatalf("%q: it says %q", body, public)
			}
			return
		}
		texts := []json.RawMessage{rest}
		if strings.HasPrefix(strings.TrimSpace(string(rest)), "[") {
			if err := json.Unmarshal(rest, &texts); err != nil {
				t.Fatalf("%q became %q: %v", body, rest, err)
			}
		}
		if len(texts) > count || len(texts) == 0 {
			t.Fatalf("%q: %d messages became %d", body, count, len(texts))
		}
		seen := map[any]bool{}
		for _, text := range texts {
			message, err := jsonrpc.DecodeMessage(text)
			if err != nil {
				t.Fatalf("%q: the SDK says %v", text, err)
			}
			call, ok := message.(*jsonrpc.Request)
			if !ok || !call.IsCall() {
				continue
			}
			if seen[call.ID.Raw()] {
				t.Fatalf("%q has an id twice", body)
			}
			seen[call.ID.Raw()] = true
			var sent struct {
				ID json.RawMessage `json:"id"`
			}
			if err := json.Unmarshal(text, &sent); err != nil {
				t.Fatal(err)
			}
			back, err := json.Marshal(call.ID.Raw())
			if err != nil || !sameValue(back, sent.ID) {
				t.Fatalf("%q: the id comes back as %s: %v", text, back, err)
			}
		}
	})
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
