package mcp

import (
	"cmp"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/handover"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/rendition"
)

// ToolList is what a model reads before its first call.
type ToolList struct {
	// Instructions are those of the server.
	Instructions string `json:"instructions"`
	// Tools are those of tools/list, in its order.
	Tools []*sdk.Tool `json:"tools"`
}

// ListTools returns the tools of an installation that has all of them, as an assistant with all scopes gets them in an account with the
// policy. Command rendertools writes them for the documentation. Its tools cannot be called.
func ListTools(cfg Config, brand string, policy account.ToolPolicy) (ToolList, error) {
	downloads, err := fetch.New(fetch.Config{Enabled: true, Concurrency: 1, PerAccount: 1, MaxOpen: 1, MaxAttempts: 1, CheckInterval: 1e9}, fetch.Deps{})
	if err != nil {
		return ToolList{}, err
	}
	a := &API{cfg: cfg, base: strings.TrimRight(cfg.BaseURL, "/"), cache: newToolCache(), deps: Deps{
		Auth: &auth.Authenticator{SignatureHeader: "x-" + brand + "-signature"}, Fetch: downloads, Handover: &handover.Service{}, Views: (*rendition.Service)(nil)}}
	v := view{policy: policy, offered: map[account.Operation]bool{}}
	for _, one := range account.Operations() {
		v.offered[one] = policy.Offers(one) && policy.Allows(one)
	}
	list := ToolList{Instructions: a.instructions(v)}
	for _, one := range a.newToolsOf(v) {
		if v.offers(one.operation) {
			list.Tools = append(list.Tools, one.definition())
		}
	}
	slices.SortFunc(list.Tools, func(one, other *sdk.Tool) int { return cmp.Compare(one.Name, other.Name) })
	return list, nil
}
