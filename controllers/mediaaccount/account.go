package mediaaccount

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/endpoint"
	"mediastack.dev/runtime/fault"
)

const (
	defaultMaxStorage    = 10 << 30 // bytes; equal to the default in the CRD's schema
	defaultMaxUploadSize = 2 << 30  // bytes; maxStorage if that is smaller
)

// ensureAccount writes the spec to PostgreSQL and reads the account's id and bucket.
func (r *Reconciler) ensureAccount(ctx context.Context, s *scope) bool {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	found, err := r.deps.Accounts.Ensure(ctx, toAccountSpec(s.Object))
	if err != nil {
		s.observed.account.failure = reconcile.NewError(reconcile.Database, err)
		return false
	}
	// Another id than before means another database, or one restored to a time before the
	// account: continuing would replace every key and serve from an empty bucket.
	if known := s.Object.Status.AccountID; known != "" && known != found.ID.String() {
		s.observed.account.failure = reconcile.NewError(reconcile.Database, fault.New(fault.Conflict,
			"the database has account id %s, but status.accountID is %s; restore the database, or clear status.accountID to start with an empty account", found.ID, known))
		return false
	}
	s.account = found
	s.observed.account.ready = true
	s.Object.Status.AccountID = found.ID.String()
	s.Object.Status.Bucket = found.Bucket
	s.Object.Status.Endpoints = r.endpoints()
	return true
}

// endpoints returns the URLs at which the runtime serves accounts.
func (r *Reconciler) endpoints() *v1alpha1.EndpointsStatus {
	return &v1alpha1.EndpointsStatus{
		REST:      r.config.BaseURL,
		Resumable: r.config.BaseURL + endpoint.Resumable,
		MCP:       r.mcpURL(),
	}
}

func (r *Reconciler) mcpURL() string { return r.config.BaseURL + endpoint.Tools }

// toAccountSpec converts the spec to that of the account package.
func toAccountSpec(object *v1alpha1.MediaAccount) account.Spec {
	owners := make([]string, 0, len(object.Spec.Owners))
	for _, owner := range object.Spec.Owners {
		owners = append(owners, string(owner))
	}
	spec := account.Spec{
		Namespace:   object.Namespace,
		Name:        object.Name,
		ObjectUID:   string(object.UID),
		DisplayName: object.Spec.DisplayName,
		Owners:      owners,
		MaxStorage:  bytesOrDefault(object.Spec.Storage.MaxStorage, defaultMaxStorage),
		Suspended:   object.Spec.Suspended,
	}
	spec.MaxUploadSize = bytesOrDefault(object.Spec.Storage.MaxUploadSize, min(defaultMaxUploadSize, spec.MaxStorage))
	if bucket := object.Spec.Storage.Bucket; bucket != nil {
		spec.Bucket = bucket.Name
	}
	spec.ToolPolicy = toToolPolicy(object.Spec.MCP)
	return spec
}

// toToolPolicy converts the tool policy. An empty list allows no tool, a missing list all.
func toToolPolicy(mcp *v1alpha1.MCPSpec) account.ToolPolicy {
	if mcp == nil {
		return account.ToolPolicy{}
	}
	policy := account.ToolPolicy{ReadOnly: mcp.ReadOnly}
	if mcp.Tools != nil {
		policy.Tools = make([]string, 0, len(mcp.Tools))
		for _, tool := range mcp.Tools {
			policy.Tools = append(policy.Tools, string(tool))
		}
		slices.Sort(policy.Tools)
	}
	return policy
}

// bytesOrDefault returns a quantity in bytes, rounded up, or defaultBytes when there is none.
func bytesOrDefault(quantity *resource.Quantity, defaultBytes int64) int64 {
	if quantity == nil {
		return defaultBytes
	}
	return quantity.Value()
}
