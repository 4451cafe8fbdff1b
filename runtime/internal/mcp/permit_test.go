package mcp

import (
	"testing"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/auth"
)

// Whoever is not known may use nothing, and a tool that does not say that it only reads
// writes.
func TestScopesBindTools(t *testing.T) {
	t.Parallel()
	reader, writer := tool{name: "r", reads: true}, tool{name: "w"}
	for name, tt := range map[string]struct {
		grant         auth.Grant
		read, written bool
	}{
		"nobody":              {auth.Grant{}, false, false},
		"a signature":         {auth.Grant{Signed: true}, false, false},
		"a reader":            {auth.Grant{Scopes: []auth.Scope{auth.ScopeRead}}, true, false},
		"a writer alone":      {auth.Grant{Scopes: []auth.Scope{auth.ScopeWrite}}, false, true},
		"a key":               {auth.Grant{Scopes: []auth.Scope{auth.ScopeRead, auth.ScopeWrite}}, true, true},
		"a key, held to read": {auth.Grant{Scopes: []auth.Scope{auth.ScopeRead, auth.ScopeWrite}, Principal: account.Principal{Account: account.Account{Agents: account.Agents{ReadOnly: true}}}}, true, false},
	} {
		if permitted(tt.grant, reader) == nil != tt.read || permitted(tt.grant, writer) == nil != tt.written {
			t.Errorf("%s: %v, %v", name, permitted(tt.grant, reader), permitted(tt.grant, writer))
		}
	}
}
