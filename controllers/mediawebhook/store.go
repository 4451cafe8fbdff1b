package mediawebhook

import (
	"context"
	"time"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/webhook"
)

// The journal, and the first replica of the runtime, usually follow within seconds.
const (
	firstWait = time.Second
	laterWait = 15 * time.Second
)

// put stores the webhook, and reads what became of it.
func (r *Reconciler) put(ctx context.Context, s *scope) bool {
	calling, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	state, err := r.deps.Webhooks.PutWebhook(calling, webhookOf(s))
	switch {
	case fault.Is(err, fault.NotFound):
		s.observed.pendingReason = "The account is not in the database"
		s.RequeueBy(r.deps.Now().Add(reconcile.Jitter(accountRetry)))
		return false
	case fault.Is(err, fault.Conflict) && fault.ReasonOf(err) == "":
		s.observed.waiting = problem{v1alpha1.ReasonWaitingForRuntime, "No replica of the runtime has published its key: the URL and the secret are encrypted with it"}
		r.waitFor(s, v1alpha1.ReasonWaitingForRuntime)
		return false
	case err != nil:
		s.observed.failure = reconcile.NewError(reconcile.Database, err)
		return false
	}
	s.observed.state = &state
	if !state.Journal {
		s.observed.waiting = problem{v1alpha1.ReasonWaitingForJournal, "The journal of the account is being switched on"}
		r.waitFor(s, v1alpha1.ReasonWaitingForJournal)
	}
	return true
}

// waitFor asks for the next reconcile: soon if the status does not say yet that this is waited for.
func (r *Reconciler) waitFor(s *scope, reason string) {
	wait := laterWait
	if ready := readyOf(s.Original); ready == nil || ready.Reason != reason {
		wait = firstWait
	}
	s.RequeueBy(r.deps.Now().Add(reconcile.Jitter(wait)))
}

// remove removes what is stored of the webhook, with its pending deliveries.
func (r *Reconciler) remove(ctx context.Context, s *scope) bool {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	err := r.deps.Webhooks.RemoveWebhook(ctx, string(s.Object.UID))
	s.observed.failure = reconcile.NewError(reconcile.Database, err)
	s.observed.removed = err == nil
	return err == nil
}

// webhookOf returns the webhook that the object wants.
func webhookOf(s *scope) webhook.Webhook {
	object := s.Object
	w := webhook.Webhook{
		Namespace: object.Namespace, Name: object.Name, UID: string(object.UID), Generation: object.Generation, AccountID: s.accountID,
		Apps: object.Spec.Apps, Groups: object.Spec.Groups, Format: webhook.Format(object.Spec.Format), Suspended: object.Spec.Suspended,
		Target: s.target, Requests: s.requests.Requests,
	}
	if w.Format == "" { // the schema has a default
		w.Format = webhook.Standard
	}
	for _, name := range object.Spec.Types {
		w.Types = append(w.Types, journal.Type(name))
	}
	return w
}
