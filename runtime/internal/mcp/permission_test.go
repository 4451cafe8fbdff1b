package mcp

import (
	"testing"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/auth"
)

// An unauthenticated caller may use no tool. A tool that changes something requires the scope to
// write.
func TestAuthorize_RequiresTheScopeAndThePolicy(t *testing.T) {
	t.Parallel()
	reader, writer := tool{operation: account.GetMedia}, tool{operation: account.SealMedia}
	for name, tt := range map[string]struct {
		identity      auth.Identity
		read, written bool
	}{
		"no credential":    {auth.Identity{}, false, false},
		"a signature":      {auth.Identity{Signed: true}, false, false},
		"a reader":         {auth.Identity{Scopes: []auth.Scope{auth.ScopeRead}}, true, false},
		"a writer alone":   {auth.Identity{Scopes: []auth.Scope{auth.ScopeWrite}}, false, true},
		"a key":            {auth.Identity{Scopes: []auth.Scope{auth.ScopeRead, auth.ScopeWrite}}, true, true},
		"a key, read-only": {auth.Identity{Scopes: []auth.Scope{auth.ScopeRead, auth.ScopeWrite}, Principal: account.Principal{Account: account.Account{ToolPolicy: account.ToolPolicy{ReadOnly: true}}}}, true, false},
	} {
		if authorize(tt.identity, reader) == nil != tt.read || authorize(tt.identity, writer) == nil != tt.written {
			t.Errorf("%s: %v, %v", name, authorize(tt.identity, reader), authorize(tt.identity, writer))
		}
	}
}
