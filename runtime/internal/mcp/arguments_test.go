package mcp

import (
	"encoding/json"
	"maps"
	"testing"

	"mediastack.dev/runtime/fault"
)

// FuzzArguments checks that every input is decoded as encoding/json does, or rejected as Invalid.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{`{"mediaId":"x","page":1}`, `{"page":1e9}`, `{"page":-0.0}`, `{"useWebP":null}`, `[]`, `null`, ``, `{"page":1,"page":"x"}`, `{"mediaId":"\ud800"}`} {
		f.Add(seed)
	}
	of := tool{operation: "t", input: inputObject(nil, prop("mediaId", uuidString(), ""), prop("page", intMin(1), ""), prop("useWebP", boolean(), ""), prop("group", str(), ""))}
	f.Fuzz(func(t *testing.T, text string) {
		if text != "" && !json.Valid([]byte(text)) {
			return // readMessages has rejected it
		}
		args := readArguments(of, json.RawMessage(text))
		page, flag, group := args.integer("page"), args.boolean("useWebP"), args.text("group")
		if _, ok := args.fields["mediaId"]; ok {
			args.id("mediaId")
		}
		if args.err != nil {
			if !fault.Is(args.err, fault.Invalid) || fault.From(args.err).Public == "" {
				t.Errorf("%q: %v", text, args.err)
			}
			return
		}
		var want struct {
			Page    *float64 `json:"page"`
			UseWebP *bool    `json:"useWebP"`
			Group   string   `json:"group"`
		}
		if present := withoutAbsent(t, text); present != nil {
			if err := json.Unmarshal(present, &want); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
		if (page == nil) != (want.Page == nil) || page != nil && float64(*page) != *want.Page || (flag == nil) != (want.UseWebP == nil) || group != want.Group {
			t.Errorf("%q is decoded as %v, %v, %q", text, page, flag, group)
		}
	})
}

// withoutAbsent removes the fields that are null or an empty string from a JSON object.
func withoutAbsent(t *testing.T, text string) []byte {
	t.Helper()
	if text == "" {
		return nil
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	maps.DeleteFunc(fields, func(_ string, value any) bool { return value == nil || value == "" })
	present, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return present
}
