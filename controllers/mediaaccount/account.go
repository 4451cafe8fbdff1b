package mediaaccount

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/status"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/endpoint"
	"mediastack.dev/runtime/fault"
)

const (
	defaultMaxStorage    = 10 << 30 // bytes; the schema's default says the same
	defaultMaxUploadSize = 2 << 30  // bytes, or the cap where that is smaller
)

// ensureAccount hands the spec over to PostgreSQL and learns the account's id and bucket.
func (r *Reconciler) ensureAccount(ctx context.Context, run *run) bool {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	found, err := r.accounts.Ensure(ctx, specOf(run.object))
	if err != nil {
		run.seen.account.failure = status.Fail(status.Database, err)
		return false
	}
	// Another id than before means another database, or one restored from before the
	// account: going on would rotate every key and serve from an empty bucket.
	if known := run.object.Status.AccountID; known != "" && known != found.ID.String() {
		run.seen.account.failure = status.Fail(status.Database, fault.New(fault.Conflict,
			"the database knows this account as %s, but it has been %s: restore the database, or clear status.accountID to begin anew", found.ID, known))
		return false
	}
	run.account = found
	run.seen.account.done = true
	run.object.Status.AccountID = found.ID.String()
	run.object.Status.Bucket = found.Bucket
	run.object.Status.Endpoints = r.endpoints()
	return true
}

// endpoints is where the runtime serves accounts.
func (r *Reconciler) endpoints() *v1alpha1.EndpointsStatus {
	return &v1alpha1.EndpointsStatus{
		REST:      r.config.BaseURL,
		Resumable: r.config.BaseURL + endpoint.Resumable,
		MCP:       r.mcpURL(),
	}
}

func (r *Reconciler) mcpURL() string { return r.config.BaseURL + endpoint.Tools }

// specOf is the spec in the words of the account package.
func specOf(object *v1alpha1.MediaAccount) account.Spec {
	owners := make([]string, 0, len(object.Spec.Owners))
	for _, owner := range object.Spec.Owners {
		owners = append(owners, string(owner))
	}
	spec := account.Spec{
		Namespace:   object.Namespace,
		Name:        object.Name,
		DisplayName: object.Spec.DisplayName,
		Owners:      owners,
		MaxStorage:  bytesOr(object.Spec.Storage.MaxStorage, defaultMaxStorage),
		Suspended:   object.Spec.Suspended,
	}
	spec.MaxUploadSize = bytesOr(object.Spec.Storage.MaxUploadSize, min(defaultMaxUploadSize, spec.MaxStorage))
	if bucket := object.Spec.Storage.Bucket; bucket != nil {
		spec.Bucket = bucket.Name
	}
	spec.ToolPolicy = toolPolicyOf(object.Spec.MCP)
	return spec
}

// toolPolicyOf returns the tool policy of a spec. An empty list differs from an absent one: it
// allows no tool.
func toolPolicyOf(mcp *v1alpha1.MCPSpec) account.ToolPolicy {
	if mcp == nil {
		return account.ToolPolicy{}
	}
	agents := account.ToolPolicy{ReadOnly: mcp.ReadOnly}
	if mcp.Tools != nil {
		agents.Tools = make([]string, 0, len(mcp.Tools))
		for _, tool := range mcp.Tools {
			agents.Tools = append(agents.Tools, string(tool))
		}
		slices.Sort(agents.Tools)
	}
	return agents
}

// bytesOr is a quantity in bytes, rounded up, or fallback when there is none.
func bytesOr(quantity *resource.Quantity, fallback int64) int64 {
	if quantity == nil {
		return fallback
	}
	return quantity.Value()
}
