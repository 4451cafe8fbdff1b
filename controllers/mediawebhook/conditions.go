package mediawebhook

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/webhook"
)

// problem is a reason with its message. The zero value is none.
type problem struct{ reason, message string }

// observed is what the steps saw; the status is computed from nothing else.
type observed struct {
	deleting      bool
	keptBy        string // the finalizers of others, after that of the operator was removed
	suspended     bool
	pendingReason string  // why the account cannot be used; empty when it can
	problem       problem // what a user has to change in the object, or in others
	waiting       problem // what is waited for
	removed       bool    // nothing is stored of the webhook

	host, secretName string
	state            *webhook.State // nil until the webhook was stored
	requestError     string
	log              *v1alpha1.WebhookLog // with state

	failure *reconcile.StepError
}

// generationObserved reports whether this generation was handled: it is stored, or a user has to act first.
func (o observed) generationObserved() bool {
	summary := summarize(o)
	return !o.deleting && (summary.Ready || summary.Stalled)
}

// conditions computes every condition from what the steps saw.
func conditions(seen observed) []metav1.Condition {
	return append(summarize(seen).Conditions(), delivering(seen))
}

func summarize(seen observed) reconcile.Summary {
	if failed, ok := reconcile.FromErrors(seen.failure); ok {
		return failed
	}
	switch {
	case seen.deleting && seen.keptBy != "":
		return reconcile.Reconciling(v1alpha1.ReasonDeleting, "The deletion is complete here; finalizers of others keep the object: "+seen.keptBy)
	case seen.deleting:
		return reconcile.Reconciling(v1alpha1.ReasonDeleting, "Removing the webhook")
	case seen.problem.reason != "":
		return reconcile.Summary{Stalled: true, Reason: seen.problem.reason, Message: seen.problem.message}
	case seen.pendingReason != "":
		return reconcile.Reconciling(v1alpha1.ReasonAccountNotReady, seen.pendingReason)
	case seen.waiting.reason != "":
		return reconcile.Reconciling(seen.waiting.reason, seen.waiting.message)
	case seen.state == nil:
		return reconcile.Reconciling(v1alpha1.ReasonProgressing, "Storing the webhook")
	}
	return reconcile.Ready(v1alpha1.ReasonSucceeded, secretText(seen.secretName))
}

// delivering computes Delivering. The receiver is another system: it decides about this condition alone.
func delivering(seen observed) metav1.Condition {
	is := func(reason, format string, args ...any) metav1.Condition {
		return reconcile.Condition(v1alpha1.ConditionDelivering, false, reason, fmt.Sprintf(format, args...))
	}
	state := seen.state
	switch {
	case seen.deleting:
		return is(v1alpha1.ReasonDeleting, "The webhook is being removed")
	case state == nil:
		summary := summarize(seen)
		return reconcile.UnknownCondition(v1alpha1.ConditionDelivering, summary.Reason, summary.Message)
	case state.Ended:
		return is(v1alpha1.ReasonEnded, "The receiver answered 410 (Gone): nothing is sent until the spec changes")
	case seen.suspended:
		return is(v1alpha1.ReasonSuspended, "spec.suspended keeps events until it is over, as long as the journal has them")
	case !state.FailingSince.IsZero():
		return is(v1alpha1.ReasonFailing, "All attempts have failed since %s: %s", state.FailingSince.UTC().Format(time.RFC3339), lastAnswer(*state))
	case missed(*state):
		return is(v1alpha1.ReasonMissed, "Events until %s were not sent: the journal did not have them anymore", state.Missed.UTC().Format(time.RFC3339))
	case state.LastSuccess.IsZero():
		return reconcile.Condition(v1alpha1.ConditionDelivering, true, v1alpha1.ReasonSucceeded, "Nothing was sent yet")
	}
	return reconcile.Condition(v1alpha1.ConditionDelivering, true, v1alpha1.ReasonSucceeded, "The receiver accepts what is sent")
}

// missed reports whether events were missed, and none was accepted since.
func missed(state webhook.State) bool { return state.Missed.After(state.LastSuccess) }

// lastAnswer says what the last attempt ended with.
func lastAnswer(state webhook.State) string {
	switch {
	case state.LastStatus != 0:
		return fmt.Sprintf("the receiver answered %d", state.LastStatus)
	case state.LastError != "":
		return shortened(state.LastError)
	}
	return "the receiver did not answer"
}

// maxErrorText bounds the text of an error, in bytes.
const maxErrorText = 512

func shortened(text string) string {
	if len(text) > maxErrorText {
		text = text[:maxErrorText-3] + "..."
	}
	return strings.ToValidUTF8(text, "")
}

// setStatus sets everything but the conditions. While PostgreSQL or a Secret cannot be read, the last values stay.
func setStatus(object *v1alpha1.MediaWebhook, seen observed) {
	status := &object.Status
	status.RequestError = seen.requestError
	if seen.host != "" {
		status.Host = seen.host
	}
	if seen.secretName != "" {
		status.SecretName = seen.secretName
	}
	if seen.removed {
		setState(status, webhook.State{})
		status.Pending, status.Log, status.Host, status.SecretName = nil, nil, "", ""
	}
	if seen.state != nil {
		setState(status, *seen.state)
		status.Log = seen.log
	}
}

// setState sets what the database says.
func setState(status *v1alpha1.MediaWebhookStatus, state webhook.State) {
	status.Pending, status.Full, status.Ended = new(int64(state.Pending)), state.Full, state.Ended
	status.Oldest, status.FailingSince, status.MissedUntil = timeOf(state.Oldest), timeOf(state.FailingSince), timeOf(state.Missed)
	status.LastAttempt, status.LastSuccess = timeOf(state.LastAttempt), timeOf(state.LastSuccess)
	status.LastStatus, status.LastError = int32(state.LastStatus), shortened(state.LastError) //nolint:gosec // G115: status codes have three digits
	status.Tested, status.Replayed, status.ReplayError = state.Tested, state.Replayed, shortened(state.ReplayError)
}

// timeOf converts a time, as the API server stores it: in seconds.
func timeOf(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	return new(metav1.NewTime(at.UTC().Truncate(time.Second)))
}

func readyOf(object *v1alpha1.MediaWebhook) *metav1.Condition {
	return meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady)
}

func deliveringOf(object *v1alpha1.MediaWebhook) *metav1.Condition {
	return meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionDelivering)
}
