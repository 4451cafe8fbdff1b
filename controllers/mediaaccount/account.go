package mediaaccount

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/mediawebhook"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/controllers/retained"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/endpoint"
	"mediastack.dev/runtime/fault"
)

const (
	defaultMaxStorage    = 10 << 30 // bytes; equal to the default in the CRD's schema
	defaultMaxUploadSize = 2 << 30  // bytes; maxStorage if that is smaller

	defaultMaxScanBytes     = 100 << 20       // equal to the default in the CRD's schema
	defaultJournalRetention = 168 * time.Hour // equal to the default in the CRD's schema
	// webhookJournalRetention is that of an account with webhooks and without spec.journal. A delivery is tried for 75 hours.
	webhookJournalRetention = 96 * time.Hour
)

// ensureAccount writes the spec to PostgreSQL and reads the account's id and bucket. The account
// is the one that is bound to this object, whatever the status says: others can write a status.
func (r *Reconciler) ensureAccount(ctx context.Context, s *scope) bool {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	webhooks, err := mediawebhook.Any(ctx, r.deps.Client, client.ObjectKeyFromObject(s.Object), r.config.NamespaceOfAll)
	if err != nil {
		s.observed.account.failure = reconcile.NewAPIError(err, "list the MediaWebhooks of the account")
		return false
	}
	spec := toAccountSpec(s.Object, webhooks)
	var found account.Account
	unbound := s.live && s.Object.Status.AccountID == "" // it has its finalizer since this run, and no account yet
	if !unbound {
		found, err = r.deps.Accounts.Update(ctx, spec)
		unbound = fault.Is(err, fault.NotFound)
	}
	if unbound {
		var failure *reconcile.StepError
		if failure = r.requireLive(ctx, s); failure != nil || s.StatusSkipped() {
			s.observed.account.failure = failure
			return false
		}
		if spec.NamespaceUID, failure = r.namespaceUID(ctx, s); failure != nil || s.StatusSkipped() {
			s.observed.account.failure = failure
			return false
		}
		if spec.Binding, err = retained.FindBinding(ctx, r.deps.Client, s.Object); err != nil {
			s.observed.account.failure = reconcile.NewAPIError(err, "read the RetainedMediaAccounts")
			return false
		}
		found, err = r.provision(ctx, s, spec)
	}
	if err != nil {
		s.observed.account.failure = reconcile.NewError(reconcile.Database, err)
		return false
	}
	s.account = found
	s.observed.account.ready = true
	s.Object.Status.AccountID = found.ID.String()
	s.Object.Status.Bucket = found.Bucket
	s.Object.Status.Endpoints = r.endpoints()
	return true
}

// provision binds an account to the object. A new one has its apps, and the keys that their Secrets
// will hold, from one transaction.
func (r *Reconciler) provision(ctx context.Context, s *scope, spec account.Spec) (account.Account, error) {
	provision, err := r.deps.Accounts.NewProvision(appNames(s.Object), specGeneration(s.Object))
	if err != nil {
		return account.Account{}, err
	}
	spec.Provision = provision
	found, err := r.deps.Accounts.Ensure(ctx, spec)
	if err == nil && found.ID == provision.AccountID {
		s.created, s.keys = true, r.provisioned(found, provision, spec)
		for _, app := range provision.Apps {
			r.undelivered.add(s.Object.UID, app.ID, app.Secret)
		}
	}
	return found, err
}

// provisioned returns the keys of an account that was just made, as far as they matter for its first Secrets.
// They have no Apps if the key of the proofs is not known, which is read with the keys of any account.
func (r *Reconciler) provisioned(made account.Account, provision account.Provision, spec account.Spec) account.AccountKeys {
	proofKey := r.proofKey.Load()
	if proofKey == nil {
		return account.AccountKeys{}
	}
	keys := account.AccountKeys{Account: made, ProofKey: *proofKey, Apps: make(map[uuid.UUID]account.AppKeys, len(provision.Apps))}
	for _, app := range provision.Apps {
		keys.Apps[app.ID] = account.AppKeys{App: account.App{ID: app.ID, AccountID: made.ID, Name: app.Name}, Sequence: 1, Valid: []account.Key{{
			ID: app.KeyID, AppID: app.ID, Hash: app.Secret.Hash(), Generation: provision.Generation, Sequence: 1, ObjectUID: spec.ObjectUID,
		}}}
	}
	return keys
}

// requireLive ends the run unless the API server has this very object with this very spec: an
// operator whose cache is late must not bind the account to an object that was replaced, nor close
// an app that was added again.
func (r *Reconciler) requireLive(ctx context.Context, s *scope) *reconcile.StepError {
	if s.live {
		return nil
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MediaAccount"))
	err := r.deps.APIReader.Get(ctx, client.ObjectKeyFromObject(s.Object), live)
	if apierrors.IsNotFound(err) || err == nil && (live.UID != s.Object.UID || live.Generation != s.Object.Generation || !live.DeletionTimestamp.IsZero()) {
		s.Conflicted()
		return nil
	}
	s.live = err == nil
	return reconcile.NewAPIError(err, "read the MediaAccount")
}

// namespaceUID returns the UID of the object's namespace, which it reads once for an object. It
// skips the status if the namespace is being deleted.
func (r *Reconciler) namespaceUID(ctx context.Context, s *scope) (string, *reconcile.StepError) {
	if known := r.objects.NamespaceUID(s.Object.UID); known != "" {
		return known, nil
	}
	terminating, failure := r.namespaceTerminating(ctx, s)
	if terminating || failure != nil {
		if terminating {
			s.SkipStatus()
		}
		return "", failure
	}
	r.objects.NamespaceRead(s.Object.UID, s.namespaceUID)
	return s.namespaceUID, nil
}

// ofWebhook returns the MediaAccount of a MediaWebhook, whose journal depends on it. One of all accounts requests all, after everything else.
func (r *Reconciler) ofWebhook(ctx context.Context, object client.Object) []*v1alpha1.MediaAccount {
	webhook := object.(*v1alpha1.MediaWebhook)
	if webhook.Spec.AllAccounts {
		if webhook.Namespace == r.config.NamespaceOfAll {
			r.RequestAll(ctx)
		}
		return nil
	}
	of := &v1alpha1.MediaAccount{}
	switch err := r.deps.Client.Get(ctx, client.ObjectKey{Namespace: webhook.Namespace, Name: webhook.AccountName()}, of); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		log.FromContext(ctx).Error(err, "read the MediaAccount of a MediaWebhook", "namespace", webhook.Namespace, "account", webhook.AccountName())
		return nil
	}
	return []*v1alpha1.MediaAccount{of}
}

// claimants maps a RetainedMediaAccount to the MediaAccounts that it may be bound to.
func claimants(_ context.Context, object client.Object) []ctrl.Request {
	var requests []ctrl.Request
	for _, key := range retained.Claimants(object.(*v1alpha1.RetainedMediaAccount)) {
		requests = append(requests, ctrl.Request{NamespacedName: key})
	}
	return requests
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

// toAccountSpec converts the spec to that of the account package. An account with webhooks has a journal, whatever the spec says.
func toAccountSpec(object *v1alpha1.MediaAccount, webhooks bool) account.Spec {
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
	spec.ToolPolicy, spec.Origins = toToolPolicy(object.Spec.MCP), toOrigins(object.Spec.CORS)
	if undo := object.Spec.Undo; undo != nil {
		spec.Undo = account.Undo{Window: undo.Window.Truncate(time.Second), For: string(undo.For)}
	}
	if webhooks {
		spec.Journal = webhookJournalRetention
	}
	if journal := object.Spec.Journal; journal != nil {
		spec.Journal, spec.FullAddresses = defaultJournalRetention, journal.Addresses == v1alpha1.AddressesFull
		if journal.Retention != nil {
			spec.Journal = journal.Retention.Duration
		}
	}
	if gate := object.Spec.Gate; gate != nil {
		spec.Gate = account.Gate{Scanner: string(gate.Scanner), AllowUnscannable: gate.OnUnscannable == v1alpha1.UnscannableAllow,
			AllowUnchecked: gate.OnUnavailable == v1alpha1.UnavailableAllow, MaxScanBytes: bytesOrDefault(gate.MaxScanBytes, defaultMaxScanBytes)}
	}
	if metadata := object.Spec.Metadata; metadata != nil {
		spec.KeepLocation = metadata.Location == v1alpha1.LocationKeep
	}
	if search := object.Spec.Search; search != nil {
		spec.Search = toSearch(*search)
	}
	return spec
}

// toSearch converts what searches look in. An empty list of keys searches no metadata, a missing list all.
func toSearch(search v1alpha1.SearchSpec) account.Search {
	converted := account.Search{Language: strings.ToLower(string(search.Language))}
	if search.Metadata != nil {
		converted.Keys = make([]string, 0, len(search.Metadata))
		for _, key := range search.Metadata {
			converted.Keys = append(converted.Keys, string(key))
		}
		slices.Sort(converted.Keys)
	}
	return converted
}

// toToolPolicy converts the tool policy. An empty list allows no tool, a missing list all.
func toToolPolicy(mcp *v1alpha1.MCPSpec) account.ToolPolicy {
	if mcp == nil {
		return account.ToolPolicy{}
	}
	policy := account.ToolPolicy{ReadOnly: mcp.ReadOnly, Approval: toApproval(mcp.Approval), Ceilings: toCeilings(mcp.Ceilings)}
	for _, toolset := range mcp.Toolsets {
		policy.Toolsets = append(policy.Toolsets, string(toolset))
	}
	slices.Sort(policy.Toolsets)
	if slices.Equal(policy.Toolsets, []string{account.ToolsetCore}) {
		policy.Toolsets = nil // as in an account without the setting
	}
	if mcp.Tools != nil {
		policy.Tools = make([]string, 0, len(mcp.Tools))
		for _, tool := range mcp.Tools {
			policy.Tools = append(policy.Tools, string(tool))
		}
		slices.Sort(policy.Tools)
	}
	return policy
}

// toOrigins converts the origins. An empty list allows none, a missing list those of the installation.
func toOrigins(cors *v1alpha1.CORSSpec) []string {
	if cors == nil {
		return nil
	}
	origins := make([]string, 0, len(cors.Origins))
	for _, origin := range cors.Origins {
		origins = append(origins, string(origin))
	}
	slices.Sort(origins)
	return origins
}

// bytesOrDefault returns a quantity in bytes, rounded up, or defaultBytes when there is none.
func bytesOrDefault(quantity *resource.Quantity, defaultBytes int64) int64 {
	if quantity == nil {
		return defaultBytes
	}
	return quantity.Value()
}
