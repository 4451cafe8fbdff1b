package mediawebhook

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/webhook"
)

const (
	// maxReplayed is how many events one replay can name.
	maxReplayed = 100
	// requestRetry is when the database is asked again whether a request was handled: an admin waits for it.
	requestRetry = 2 * time.Second
)

// eventRequestInvalid is the reason of the event for annotations that cannot be used.
const eventRequestInvalid = "RequestInvalid"

var (
	tokenForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	// eventIDForm is that of journal.Event.EventID.
	eventIDForm = regexp.MustCompile(`^[0-9]{1,19}-[0-9]{1,19}$`)
)

// requests are what the annotations ask for.
type requests struct {
	webhook.Requests
	log string // the token of a request for the log; empty = none
}

// readRequests reads the annotations. Those that cannot be used ask for nothing.
func (r *Reconciler) readRequests(_ context.Context, s *scope) bool {
	var err error
	if s.requests, err = parseRequests(s.Object.Annotations, r.deps.Now()); err != nil {
		s.observed.requestError = err.Error()
		s.requests.keepHandled(s.Object)
	}
	return true
}

// keepHandled puts the tokens that were handled last in the place of those of annotations that cannot be used: the former request is not made
// again when the annotation is corrected to what it was.
func (q *requests) keepHandled(object *v1alpha1.MediaWebhook) {
	if object.Annotations[v1alpha1.AnnotationSendTestEvent] != "" && q.Test == "" {
		q.Test = object.Status.Tested
	}
	if object.Annotations[v1alpha1.AnnotationReplay] != "" && q.Replay == "" {
		q.Replay = object.Status.Replayed
	}
}

// parseRequests returns what annotations ask for. With an error, the others are returned still.
func parseRequests(annotations map[string]string, now time.Time) (requests, error) {
	var asked requests
	var wrong []string
	token := func(name string) string {
		value, there := annotations[name]
		if there && !tokenForm.MatchString(value) {
			wrong = append(wrong, fmt.Sprintf("%s must be 1 to 63 of letters, digits, '.', '_' and '-', with a letter or digit at both ends", name))
			return ""
		}
		return value
	}
	asked.Test, asked.log = token(v1alpha1.AnnotationSendTestEvent), token(v1alpha1.AnnotationShowLog)
	if replay := token(v1alpha1.AnnotationReplay); replay != "" {
		since, events, text := parseReplay(annotations, now)
		if text != "" {
			wrong = append(wrong, text)
		} else {
			asked.Replay, asked.Since, asked.Events = replay, since, events
		}
	}
	if len(wrong) > 0 {
		return asked, fmt.Errorf("annotations: %s", strings.Join(wrong, "; "))
	}
	return asked, nil
}

// parseReplay returns which events to send again, or what is wrong.
func parseReplay(annotations map[string]string, now time.Time) (since time.Time, events []string, wrong string) {
	sinceText, hasSince := annotations[v1alpha1.AnnotationReplaySince]
	eventsText, hasEvents := annotations[v1alpha1.AnnotationReplayEvents]
	switch {
	case hasSince == hasEvents:
		return since, nil, fmt.Sprintf("%s needs exactly one of %s and %s", v1alpha1.AnnotationReplay, v1alpha1.AnnotationReplaySince, v1alpha1.AnnotationReplayEvents)
	case hasSince:
		at, err := time.Parse(time.RFC3339, sinceText)
		if err != nil || at.After(now) {
			return since, nil, fmt.Sprintf("%s must be a time of the past such as 2026-11-28T12:00:00Z", v1alpha1.AnnotationReplaySince)
		}
		return at, nil, ""
	}
	for id := range strings.SplitSeq(eventsText, ",") {
		id = strings.TrimSpace(id)
		if !eventIDForm.MatchString(id) {
			return since, nil, v1alpha1.AnnotationReplayEvents + " must be ids of events with commas between them, such as 1-4711,1-4712"
		}
		events = append(events, id)
	}
	if len(events) > maxReplayed {
		return since, nil, fmt.Sprintf("%s may have %d ids at most", v1alpha1.AnnotationReplayEvents, maxReplayed)
	}
	return since, events, ""
}

// readLog reads the log if an annotation asks for one that the status does not have, and asks for the next reconcile while a request waits.
func (r *Reconciler) readLog(ctx context.Context, s *scope) bool {
	state := s.observed.state
	if s.requests.handledSoon(*state, s.observed.suspended) {
		s.RequeueBy(r.deps.Now().Add(requestRetry))
	}
	shown := s.Original.Status.Log
	switch {
	case s.requests.log == "":
		s.observed.log = nil
		return true
	case shown != nil && shown.Request == s.requests.log:
		s.observed.log = shown
		return true
	}
	calling, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	attempts, err := r.deps.Webhooks.Attempts(calling, string(s.Object.UID))
	if err != nil {
		s.observed.log, s.observed.failure = shown, reconcile.NewError(reconcile.Database, err)
		return false
	}
	s.observed.log = &v1alpha1.WebhookLog{Request: s.requests.log, Attempts: logged(attempts)}
	return true
}

// handledSoon reports whether a runtime is about to handle a request. It does not while the webhook is suspended or ended, nor while its queue is
// full: then the comparison tells when it has.
func (q requests) handledSoon(state webhook.State, suspended bool) bool {
	asked := state.Tested != q.Test && q.Test != "" || state.Replayed != q.Replay && q.Replay != ""
	return asked && !state.Ended && !state.Full && !suspended
}

// logged converts attempts.
func logged(attempts []webhook.Attempt) []v1alpha1.WebhookAttempt {
	attempts = attempts[:min(len(attempts), webhook.MaxAttemptsLogged)]
	converted := make([]v1alpha1.WebhookAttempt, 0, len(attempts))
	for _, attempt := range attempts {
		converted = append(converted, v1alpha1.WebhookAttempt{
			At: metav1.NewTime(attempt.At), Event: attempt.EventID, Type: string(attempt.Type), Number: int32(attempt.Number), //nolint:gosec // G115: ten attempts
			Status: int32(attempt.Status), Error: shortened(attempt.Error), DurationMilliseconds: attempt.Duration.Milliseconds(), //nolint:gosec // G115: status codes have three digits
		})
	}
	return converted
}

// recordEvents records what an admin has to know, once.
func (r *Reconciler) recordEvents(s *scope) {
	if text := s.observed.requestError; text != "" && text != s.Original.Status.RequestError {
		r.deps.Events.Eventf(s.Object, nil, corev1.EventTypeWarning, eventRequestInvalid, "Request", "%s", text)
	}
	before, after := deliveringOf(s.Original), deliveringOf(s.Object)
	if after == nil || after.Status != metav1.ConditionFalse || before != nil && before.Reason == after.Reason {
		return
	}
	switch after.Reason {
	case v1alpha1.ReasonFailing, v1alpha1.ReasonEnded, v1alpha1.ReasonMissed:
		r.deps.Events.Eventf(s.Object, nil, corev1.EventTypeWarning, after.Reason, "Deliver", "%s", after.Message)
	}
}
