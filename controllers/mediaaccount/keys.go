package mediaaccount

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// keyStep is the step of one reconcile that provides the keys.
type keyStep struct {
	*scope
	changed bool // the database's keys differ from those of the scope
	created []createdSecret
}

// createdSecret is the first Secret of an app, whose key is to be recorded as delivered.
type createdSecret struct {
	want   desiredSecret
	secret *corev1.Secret
	key    account.Key
	plan   secretPlan
}

// ensureKeys provides every app with a Secret that holds a valid key, and deletes the Secrets of
// apps that were removed. PostgreSQL stores hashes only: a key that no Secret holds cannot be read
// again, so a new key replaces it. The older keys end only when a Secret holds the new one.
func (r *Reconciler) ensureKeys(ctx context.Context, s *scope) bool {
	k := &keyStep{scope: s}
	secrets, failure := r.cachedSecrets(ctx, s.Object)
	if failure != nil {
		s.observed.keys.failure = failure
		return true
	}
	for _, app := range s.apps {
		want := r.desiredSecret(s, app, k.keys)
		failure := r.ensureKey(ctx, k, want, secrets[want.name])
		if s.StatusSkipped() {
			return false
		}
		if failure != nil && !s.observed.keys.failure.Stalls() {
			s.observed.keys.failure = failure
		}
		delete(secrets, want.name)
	}
	if failure := r.deliverCreated(ctx, k); failure != nil && !s.observed.keys.failure.Stalls() {
		s.observed.keys.failure = failure
	}
	if s.StatusSkipped() {
		return false
	}
	for _, secret := range secrets {
		if failure := r.removeSecret(ctx, s, secret); failure != nil && s.observed.keys.failure == nil {
			s.observed.keys.failure = failure
		}
	}
	if k.changed {
		if failure := r.readKeys(ctx, k); failure != nil || s.StatusSkipped() {
			s.observed.keys.failure = failure
			return false
		}
	}
	r.reportKeys(k)
	return true
}

// readKeys reads the keys again.
func (r *Reconciler) readKeys(ctx context.Context, k *keyStep) *reconcile.StepError {
	k.changed = false
	return r.readState(ctx, k.scope)
}

// ensureKey makes one app's Secret and key match want. The cache may be behind the API server, so
// that every action is planned again from the Secret as the API server has it.
func (r *Reconciler) ensureKey(ctx context.Context, k *keyStep, want desiredSecret, cached *corev1.Secret) *reconcile.StepError {
	plan := func(secret *corev1.Secret) secretPlan {
		return planSecret(want, secret, k.keys.Apps[want.app.ID].Valid, k.keys.Now)
	}
	first := plan(cached)
	if first.action == actionNone && !isTerminating(cached) {
		return nil
	}
	if cached == nil && first.action == actionIssue {
		if created, failure := r.createSecret(ctx, k, want, first); created || failure != nil {
			return failure
		}
	}
	if k.assumed { // what follows compares times of the database
		if failure := r.readKeys(ctx, k); failure != nil || k.StatusSkipped() {
			return failure
		}
	}
	existing, failure := r.readSecret(ctx, want)
	if failure != nil {
		return failure
	}
	if isTerminating(existing) {
		return keptSecret(want, existing, k.keys.Apps[want.app.ID].Valid)
	}
	next := plan(existing)
	if next.accept {
		accepted, failure := r.acceptKey(ctx, k, want, existing)
		if failure != nil {
			return failure
		}
		if accepted {
			next = plan(existing)
		}
	}
	if next.action == actionDeliver {
		// The key may be of an earlier generation of the spec: what follows is planned again.
		_, held := heldKey(existing, k.keys.Apps[want.app.ID].Valid)
		if failure := r.deliverKey(ctx, k, want, held); failure != nil || k.StatusSkipped() {
			return failure
		}
		if failure := r.readKeys(ctx, k); failure != nil {
			return failure
		}
		next = plan(existing)
	}
	return r.carryOut(ctx, k, want, existing, next)
}

// carryOut does what was planned for one app.
func (r *Reconciler) carryOut(ctx context.Context, k *keyStep, want desiredSecret, existing *corev1.Secret, plan secretPlan) *reconcile.StepError {
	switch plan.action {
	case actionNone, actionDeliver: // a delivery is planned again before this
	case actionReject:
		return reconcile.NewError(reconcile.Kubernetes, fault.New(fault.Conflict,
			"Secret %s does not belong to this account; delete or rename it, so that the operator can create the Secret of app %s", want.name, want.app.Name))
	case actionWait:
		k.RequeueBy(r.deps.Now().Add(plan.wait))
		return reconcile.NewError(reconcile.Kubernetes, fault.New(fault.Conflict,
			"Secret %s is overwritten again and again: its key is not the current one of app %s; find what writes it. The operator issues another key after a pause", want.name, want.app.Name))
	case actionUpdate:
		token, held := heldKey(existing, k.keys.Apps[want.app.ID].Valid)
		if !want.differs(existing, held) {
			return nil
		}
		_, failure := r.writeSecret(ctx, k.scope, want, existing, token, held)
		return failure
	case actionIssue:
		if existing == nil {
			terminating, failure := r.namespaceTerminating(ctx, k.scope)
			if terminating {
				k.SkipStatus()
			}
			if terminating || failure != nil {
				return failure
			}
		}
		return r.issueKey(ctx, k, want, existing, plan)
	}
	return nil
}

// heldKey returns the key that the Secret holds, which is one of valid.
func heldKey(secret *corev1.Secret, valid []account.Key) (account.KeySecret, account.Key) {
	token, _ := account.ParseKeySecret(string(secret.Data[v1alpha1.SecretAPIKey]))
	return token, valid[keyIndex(secret, valid)]
}

// createSecret creates the first Secret of an app, whose pending key is known since the account was made.
// It reports whether the Secret was created, or cannot be: there may be one that the cache does not have.
func (r *Reconciler) createSecret(ctx context.Context, k *keyStep, want desiredSecret, plan secretPlan) (bool, *reconcile.StepError) {
	token, key, known := r.knownKey(k, want, plan)
	if !known {
		return false, nil
	}
	secret := want.secret(nil, token.Reveal(), key)
	err := r.deps.Client.Create(ctx, secret)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		k.SkipStatus()
		return true, nil
	case apierrors.IsAlreadyExists(err):
		return false, nil
	case err != nil:
		return true, reconcile.NewAPIError(err, "write Secret %s", want.name)
	}
	k.created = append(k.created, createdSecret{want, secret, key, plan})
	return true, nil
}

// deliverCreated records in one transaction that the first Secrets hold their keys. A Secret whose key was
// not recorded, because this was interrupted, is found by the next reconcile.
func (r *Reconciler) deliverCreated(ctx context.Context, k *keyStep) *reconcile.StepError {
	if len(k.created) == 0 {
		return nil
	}
	keys := make([]account.Key, len(k.created))
	for i := range k.created {
		keys[i] = k.created[i].key
	}
	calling, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	delivered, err := r.deps.Accounts.DeliverFirstKeys(calling, keys, string(k.Object.UID))
	if err != nil {
		return reconcile.NewError(reconcile.Database, err)
	}
	k.changed = true
	for _, one := range k.created {
		if !slices.Contains(delivered, one.key.ID) { // a later key of the app, or one that was replaced meanwhile
			if failure := r.finishIssue(ctx, k, one.want, one.secret, one.key, one.plan); failure != nil || k.StatusSkipped() {
				return failure
			}
			continue
		}
		r.undelivered.remove(k.Object.UID, one.want.app.ID)
		r.announceKey(k, one)
	}
	return nil
}

// issueKey issues a key in two phases: it is added to the database, then written into the Secret,
// and only then the older keys end. After a crash in between, or while the Secret cannot be
// written, the older keys stay valid.
func (r *Reconciler) issueKey(ctx context.Context, k *keyStep, want desiredSecret, existing *corev1.Secret, plan secretPlan) *reconcile.StepError {
	token, key, failure := r.pendingKey(ctx, k, want, plan)
	if failure != nil || k.StatusSkipped() {
		return failure
	}
	secret, failure := r.writeSecret(ctx, k.scope, want, existing, token, key)
	if failure != nil || k.StatusSkipped() {
		return failure
	}
	return r.finishIssue(ctx, k, want, secret, key, plan)
}

// finishIssue records that the Secret holds the key.
func (r *Reconciler) finishIssue(ctx context.Context, k *keyStep, want desiredSecret, secret *corev1.Secret, key account.Key, plan secretPlan) *reconcile.StepError {
	if failure := r.deliverKey(ctx, k, want, key); failure != nil || k.StatusSkipped() {
		return failure
	}
	r.announceKey(k, createdSecret{want, secret, key, plan})
	return nil
}

// announceKey records the event of a new key.
func (r *Reconciler) announceKey(k *keyStep, one createdSecret) {
	message := fmt.Sprintf("Secret %s holds a new key for app %s (%s)", one.want.name, one.want.app.Name, one.plan.reason)
	if one.key.Overlap > 0 {
		message += fmt.Sprintf("; the previous key stays valid for %s", one.key.Overlap)
	}
	// The Secret as the related object: events of several apps are not merged into one.
	r.deps.Events.Eventf(k.Object, one.secret, corev1.EventTypeNormal, one.plan.event, "IssueKey", "%s", message)
}

// knownKey returns the app's pending key, if its plain text is still known and it is what the plan needs.
func (r *Reconciler) knownKey(k *keyStep, want desiredSecret, plan secretPlan) (account.KeySecret, account.Key, bool) {
	valid := k.keys.Apps[want.app.ID].Valid
	if len(valid) == 0 || !valid[0].Pending() {
		return account.KeySecret{}, account.Key{}, false
	}
	pending := valid[0]
	token, known := r.undelivered.find(want.object.UID, want.app.ID)
	same := token.Hash().Equal(pending.Hash) && pending.Overlap <= plan.overlap &&
		pending.Generation == want.newGeneration && pending.ObjectUID == string(want.object.UID)
	return token, pending, known && same
}

// pendingKey returns the known key, or adds one.
func (r *Reconciler) pendingKey(ctx context.Context, k *keyStep, want desiredSecret, plan secretPlan) (account.KeySecret, account.Key, *reconcile.StepError) {
	if token, pending, known := r.knownKey(k, want, plan); known {
		return token, pending, nil
	}
	uid := want.object.UID
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	token, key, err := r.deps.Accounts.AddKey(ctx, account.KeyRequest{
		AppID: want.app.ID, Generation: want.newGeneration, ObjectUID: string(uid), Overlap: plan.overlap, Seen: k.keys.Apps[want.app.ID].Seen(),
	})
	if err != nil {
		return account.KeySecret{}, account.Key{}, k.keysChanged(err)
	}
	k.changed = true
	r.undelivered.add(uid, want.app.ID, token)
	return token, key, nil
}

// deliverKey records that the Secret holds the key.
func (r *Reconciler) deliverKey(ctx context.Context, k *keyStep, want desiredSecret, key account.Key) *reconcile.StepError {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	if err := r.deps.Accounts.DeliverKey(ctx, key, string(want.object.UID)); err != nil {
		return k.keysChanged(err)
	}
	k.changed = true
	r.undelivered.remove(want.object.UID, want.app.ID)
	return nil
}

// acceptKey makes the key of a Secret valid, if its proof says that this installation issued it
// for this app, and no key replaced it since. So clients keep their keys after the database was
// restored. A key that was replaced or revoked is not accepted again.
func (r *Reconciler) acceptKey(ctx context.Context, k *keyStep, want desiredSecret, existing *corev1.Secret) (bool, *reconcile.StepError) {
	token, ok := account.ParseKeySecret(string(existing.Data[v1alpha1.SecretAPIKey]))
	proof := string(existing.Data[v1alpha1.SecretProof])
	if !ok || proof == "" {
		return false, nil
	}
	dbctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	accepted, err := r.deps.Accounts.AcceptKey(dbctx, k.keys, want.app, token, proof, account.KeyRequest{
		ObjectUID: string(want.object.UID), Overlap: want.overlap,
	})
	if err != nil {
		return false, k.keysChanged(err)
	}
	if !accepted {
		return false, nil
	}
	r.deps.Events.Eventf(k.Object, existing, corev1.EventTypeNormal, eventKeyAccepted, "AcceptKey",
		"The key in Secret %s is valid again for app %s: its proof shows that this installation issued it", want.name, want.app.Name)
	return true, r.readKeys(ctx, k)
}

// keysChanged returns the failure of a change of the keys. When another replica changed them or
// closed the app meanwhile, it ends the run instead, which is repeated soon.
func (k *keyStep) keysChanged(err error) *reconcile.StepError {
	if errors.Is(err, account.ErrKeysChanged) || fault.Is(err, fault.NotFound) {
		k.Conflicted()
		return nil
	}
	return reconcile.NewError(reconcile.Database, err)
}

// sortApps sorts the apps by name, so that the status does not depend on the order of rows.
func sortApps(apps []account.App) {
	slices.SortFunc(apps, func(a, b account.App) int { return strings.Compare(a.Name, b.Name) })
}
