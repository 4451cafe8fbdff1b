package mcp

import (
	"testing"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/oauth"
)

// An unauthenticated caller may use no tool. A tool that changes something requires the scope to
// write.
func TestAuthorize_RequiresTheScopeAndThePolicy(t *testing.T) {
	t.Parallel()
	reader, writer, eraser := tool{operation: account.GetMedia}, tool{operation: account.SealMedia}, tool{operation: account.DeleteMedia}
	for name, tt := range map[string]struct {
		identity               auth.Identity
		read, written, deleted bool
	}{
		"no credential":    {auth.Identity{}, false, false, false},
		"a signature":      {auth.Identity{Signed: true}, false, false, false},
		"a reader":         {auth.Identity{Scopes: []auth.Scope{auth.ScopeRead}}, true, false, false},
		"a writer alone":   {auth.Identity{Scopes: []auth.Scope{auth.ScopeWrite}}, false, true, false},
		"an eraser alone":  {auth.Identity{Scopes: []auth.Scope{auth.ScopeDelete}}, false, false, true},
		"a key":            {auth.Identity{Scopes: oauth.Scopes()}, true, true, true},
		"a key, read-only": {auth.Identity{Scopes: oauth.Scopes(), Principal: account.Principal{Account: account.Account{ToolPolicy: account.ToolPolicy{ReadOnly: true}}}}, true, false, false},
	} {
		for tool, want := range map[*tool]bool{&reader: tt.read, &writer: tt.written, &eraser: tt.deleted} {
			if err := authorize(tt.identity, *tool); (err == nil) != want {
				t.Errorf("%s, %s: %v", name, tool.name(), err)
			}
		}
	}
}
