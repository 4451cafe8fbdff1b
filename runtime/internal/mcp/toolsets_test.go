package mcp_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
)

// allToolsets writes a spec that offers the tools of all toolsets.
func allToolsets(s *account.Spec) {
	s.ToolPolicy.Toolsets = slices.DeleteFunc(account.Toolsets(), func(set string) bool {
		return set == account.ToolsetCapabilities || set == account.ToolsetUploads || set == account.ToolsetSlim // they change tools of core
	})
}

// withOrganize writes a spec that offers the ten tools and those of the toolset organize.
func withOrganize(s *account.Spec) {
	s.ToolPolicy.Toolsets = []string{account.ToolsetCore, account.ToolsetOrganize}
}

// maxCoreTools is the size of tools/list of an account without toolsets, in bytes. A model reads them in each conversation.
const maxCoreTools = 14_192

var update = flag.Bool("update", false, "write the golden files")

// The tools of an account without toolsets do not change: clients have been written for them. Only their output schemas may gain a member
// that their outputs always had, and their descriptions, of which the specification has none, may say more.
func TestCoreTools_AreByteIdentical(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.replica(t).post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, apiKey(w.tenant(t, "one").Key))
	var text bytes.Buffer
	must(t, json.Indent(&text, got.Body, "", "\t"))
	text.WriteByte('\n')
	golden := filepath.Join("testdata", "core_tools.json")
	if *update {
		must(t, os.WriteFile(golden, text.Bytes(), 0o600))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if !bytes.Equal(text.Bytes(), want) {
		t.Errorf("tools/list of an account without toolsets has changed:\n%s", text.Bytes())
	}
	if len(got.Body) > maxCoreTools {
		t.Errorf("tools/list of an account without toolsets has %d bytes, more than %d: each of its connections pays for them", len(got.Body), maxCoreTools)
	}
}

// A tool of another toolset is neither listed nor callable. The tool policy and the scopes hold for it,
// too.
func TestToolsets_DecideWhichToolsThereAre(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	draft := rt.upload(t, one.Key, "f", []byte("f"))
	core := rt.names(t, one.Key)
	arguments := rows["update_media"].right(draft)
	for _, tt := range []struct {
		policy account.ToolPolicy
		names  []string
		says   string // of a call of update_media; "" = it succeeds
	}{
		{account.ToolPolicy{}, core, "is in the toolset organize"},
		{account.ToolPolicy{Toolsets: []string{"core", "organize"}}, slices.Sorted(slices.Values(append(slices.Clone(core), "update_media"))), ""},
		{account.ToolPolicy{Toolsets: []string{"organize"}}, []string{"update_media"}, ""},
		{account.ToolPolicy{Toolsets: []string{"organize"}, ReadOnly: true}, []string{}, "is not allowed"},
		{account.ToolPolicy{Toolsets: []string{"core", "organize"}, Tools: []string{"get_media"}}, []string{"get_media"}, "is not allowed"},
		{account.ToolPolicy{Toolsets: []string{"core"}, Tools: []string{"update_media"}}, []string{}, "is in the toolset organize"},
	} {
		w.Change(t, one, func(s *account.Spec) { s.ToolPolicy = tt.policy })
		wait.Until(t, "the list has changed", func() bool { return slices.Equal(rt.names(t, one.Key), tt.names) })
		got := rt.call(t, one.Key, "update_media", arguments)
		if got.IsError != (tt.says != "") || got.IsError && !strings.Contains(got.Content[0].Text, tt.says) {
			t.Errorf("%+v: update_media returns %s", tt.policy, got.Content[0].Text)
		}
	}
}
