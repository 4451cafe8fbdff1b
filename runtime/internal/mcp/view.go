package mcp

import (
	"slices"
	"sync"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/lru"
)

// view is what a caller gets of the tools. Their texts are made for it: a text that names a tool which the caller does not have
// sends a model to a call that fails.
type view struct {
	policy account.ToolPolicy
	// offered are the tools that the caller can call.
	offered map[account.Operation]bool
}

// viewOf returns the view of a caller.
func (a *API) viewOf(identity auth.Identity) view {
	v := view{policy: identity.Account.ToolPolicy, offered: map[account.Operation]bool{}}
	for _, one := range account.Operations() {
		v.offered[one] = a.exists(one) && authorize(identity, tool{operation: one}) == nil
	}
	return v
}

// wholeView is the view of a caller that has all tools that the installation has, and no toolset that changes others.
func (a *API) wholeView() view {
	v := view{offered: map[account.Operation]bool{}}
	for _, one := range account.Operations() {
		v.offered[one] = a.exists(one)
	}
	return v
}

// exists reports whether the installation has a tool.
func (a *API) exists(one account.Operation) bool {
	switch one.Toolset() {
	case account.ToolsetFetch:
		return a.deps.Fetch.Enabled()
	case account.ToolsetHandover:
		return a.deps.Handover != nil
	case account.ToolsetSee:
		return a.deps.Views != nil
	}
	return true
}

func (v view) has(toolset string) bool { return v.policy.HasToolset(toolset) }

func (v view) offers(one account.Operation) bool { return v.offered[one] }

// when returns a text that names a tool, if the caller has it.
func (v view) when(one account.Operation, text string) string {
	if v.offers(one) {
		return text
	}
	return ""
}

// either returns the names of those tools that the caller has, as "a, b or c"; empty if it has none.
func (v view) either(operations ...account.Operation) string {
	var names []string
	for _, one := range operations {
		if v.offers(one) {
			names = append(names, string(one))
		}
	}
	return httpapi.Or(names)
}

// itemSources returns the tools that ids of items are from.
func (v view) itemSources() string {
	return v.either(account.UploadMedia, account.GetUploadFromURL, account.GetUpload, account.ListMedia, account.SearchMedia, account.ListDrafts)
}

// draftSources returns the tools that ids of drafts are from. Without a tool that lists drafts it is the same as itemSources, so that
// the ten tools stay as they are.
func (v view) draftSources() string {
	if !v.offers(account.ListDrafts) && !v.offers(account.GetUploadFromURL) && !v.offers(account.GetUpload) {
		return v.itemSources()
	}
	return v.either(account.UploadMedia, account.GetUploadFromURL, account.GetUpload, account.ListDrafts)
}

// idText returns the description of an id.
func idText(of, sources string) string {
	if sources == "" {
		return of + "."
	}
	return of + ", from " + sources + "."
}

// key is equal for views whose tools are equal.
func (v view) key() string {
	key := make([]byte, 0, 64)
	bit := func(set bool) {
		if set {
			key = append(key, '1')
		} else {
			key = append(key, '0')
		}
	}
	for _, one := range account.Operations() {
		bit(v.offers(one))
	}
	for _, set := range account.Toolsets() {
		bit(v.has(set))
	}
	rules := v.policy.Approval
	for _, rule := range []account.Rule{rules.Delete, rules.Publish, rules.Settings} {
		bit(rule != "")
	}
	return string(key)
}

// maxViews bounds the views whose tools are kept. Accounts have few different policies.
const maxViews = 32

// toolCache keeps the tools of views. It is safe for concurrent use.
type toolCache struct {
	mu    sync.Mutex
	tools *lru.Map[string, []tool]
}

func newToolCache() *toolCache { return &toolCache{tools: lru.New[string, []tool](maxViews)} }

// toolsOf returns the tools as a caller with the view has them. It may return more than the caller may call: see authorize.
func (a *API) toolsOf(v view) []tool {
	key := v.key()
	a.cache.mu.Lock()
	defer a.cache.mu.Unlock()
	if made, ok := a.cache.tools.Get(key); ok {
		return made
	}
	made := a.newToolsOf(v)
	a.cache.tools.Put(key, made)
	return made
}

// newToolsOf returns the definitions of all tools of the installation, with the texts of a view.
func (a *API) newToolsOf(v view) []tool {
	tools := slices.Concat(a.newTools(v), a.findTools(v), a.fetchTools(v), a.handoverTools(v), a.activityTools(), a.approvalTools(), a.seeTools(v))
	for i, t := range tools {
		tools[i] = t.in(v.policy).asking(v)
	}
	return tools
}

// toolOf returns one of the tools of a view.
func (a *API) toolOf(v view, one account.Operation) (tool, bool) {
	tools := a.toolsOf(v)
	at := slices.IndexFunc(tools, func(t tool) bool { return t.operation == one })
	if at < 0 {
		return tool{}, false
	}
	return tools[at], true
}
