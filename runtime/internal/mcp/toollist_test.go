package mcp_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/mcp"
)

// What the documentation counts and the tasks for models are made from is what a service lists.
func TestListTools_AreThoseThatAServiceLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.replica(t, withImages)
	for name, policy := range map[string]account.ToolPolicy{
		"core": {Toolsets: []string{account.ToolsetCore}},
		"all":  {Toolsets: account.Toolsets(), Approval: account.Approval{Delete: account.RuleAlways, Publish: account.RuleAlways}},
	} {
		one := w.tenant(t, name, func(s *account.Spec) { s.ToolPolicy = policy })
		list, err := mcp.ListTools(mcp.Config{BaseURL: baseURL, DraftTTL: 24 * time.Hour}, "service", policy)
		must(t, err)
		made := map[string]any{}
		for _, tool := range list.Tools {
			text, err := json.Marshal(tool)
			must(t, err)
			var decoded any
			must(t, json.Unmarshal(text, &decoded))
			made[tool.Name] = decoded
		}
		var message struct {
			Result struct{ Tools []map[string]any }
		}
		must(t, json.Unmarshal(rt.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, apiKey(one.Key)).Body, &message))
		if len(message.Result.Tools) != len(made) {
			t.Errorf("%s: the service lists %d tools, ListTools %d", name, len(message.Result.Tools), len(made))
		}
		for _, tool := range message.Result.Tools {
			if !reflect.DeepEqual(any(tool), made[tool["name"].(string)]) {
				t.Errorf("%s: %s is listed as %v, and made as %v", name, tool["name"], tool, made[tool["name"].(string)])
			}
		}
	}
}
