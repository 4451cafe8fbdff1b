package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
)

// webhookCommand has the commands of MediaWebhooks. Each asks the operator by annotations, and waits for the status.
type webhookCommand struct {
	List   webhookListCommand   `cmd:"" help:"List the MediaWebhooks, those that need attention first."`
	Test   webhookTestCommand   `cmd:"" help:"Send a test event, and wait for the answer."`
	Replay webhookReplayCommand `cmd:"" help:"Send events again: those since a time, or those with some ids."`
	Log    webhookLogCommand    `cmd:"" help:"Show the last 100 attempts."`
}

const (
	// webhookPause is the pause between two looks at the status.
	webhookPause = 500 * time.Millisecond
	// staleError is for how long an error of before is not one of this request: the operator may not have removed it yet.
	staleError = 5 * time.Second
)

// webhookListCommand lists MediaWebhooks.
type webhookListCommand struct {
	AllNamespaces bool `short:"A" help:"List the MediaWebhooks of all namespaces."`
}

// Run prints the table.
func (c *webhookListCommand) Run(ctx context.Context, cluster *cluster, out io.Writer) error {
	var scope []client.ListOption
	if !c.AllNamespaces {
		scope = append(scope, client.InNamespace(cluster.namespace))
	}
	var webhooks v1alpha1.MediaWebhookList
	if err := cluster.List(ctx, &webhooks, scope...); err != nil {
		return err
	}
	if len(webhooks.Items) == 0 {
		where := " in the namespace " + cluster.namespace
		if c.AllNamespaces {
			where = ""
		}
		_, err := fmt.Fprintln(out, "no webhooks"+where)
		return err
	}
	slices.SortStableFunc(webhooks.Items, func(a, b v1alpha1.MediaWebhook) int {
		return cmp.Or(cmp.Compare(attentionOf(&a), attentionOf(&b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(namespace string, columns ...any) {
		if c.AllNamespaces { // as `kubectl get` does
			_, _ = fmt.Fprintf(table, "%s\t", namespace)
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", columns...)
	}
	row("NAMESPACE", "NAME", "ACCOUNT", "HOST", "READY", "DELIVERING", "PENDING", "MESSAGE")
	for i := range webhooks.Items {
		w := &webhooks.Items[i]
		account, pending := cmp.Or(w.AccountName(), "(all)"), "-"
		if w.Status.Pending != nil {
			pending = fmt.Sprint(*w.Status.Pending)
		}
		row(w.Namespace, w.Name, account, cmp.Or(w.Status.Host, "-"),
			statusText(w, v1alpha1.ConditionReady), statusText(w, v1alpha1.ConditionDelivering), pending, explanationOf(w))
	}
	return table.Flush()
}

// attentionOf returns the place of a webhook in the list: not Ready first, then those that are not delivered.
func attentionOf(w *v1alpha1.MediaWebhook) int {
	switch {
	case !meta.IsStatusConditionTrue(w.Status.Conditions, v1alpha1.ConditionReady):
		return 0
	case !meta.IsStatusConditionTrue(w.Status.Conditions, v1alpha1.ConditionDelivering):
		return 1
	}
	return 2
}

func statusText(w *v1alpha1.MediaWebhook, kind string) string {
	if condition := meta.FindStatusCondition(w.Status.Conditions, kind); condition != nil {
		return string(condition.Status)
	}
	return "Unknown"
}

// explanationOf returns the message of what is not True.
func explanationOf(w *v1alpha1.MediaWebhook) string {
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionDelivering} {
		if condition := meta.FindStatusCondition(w.Status.Conditions, kind); condition != nil && condition.Status != "True" {
			return condition.Message
		}
	}
	if len(w.Status.Conditions) == 0 {
		return "the operator has not handled it"
	}
	return ""
}

// webhookRequest is what the commands that wait have in common.
type webhookRequest struct {
	Name    string        `arg:"" help:"Name of the MediaWebhook."`
	Timeout time.Duration `default:"60s" help:"How long to wait for the answer."`
}

// webhookTestCommand sends a test event.
type webhookTestCommand struct {
	webhookRequest `embed:""`
}

// testEvent is the beginning of the ids of test events, before the token of the request.
const testEvent = "test-"

// Run asks for a test event, and waits for the first attempt to send it.
func (c *webhookTestCommand) Run(ctx context.Context, cluster *cluster, out io.Writer) error {
	token, until := newToken(), cluster.now().Add(c.Timeout)
	w, err := c.ask(ctx, cluster, map[string]string{v1alpha1.AnnotationSendTestEvent: token}, func(w *v1alpha1.MediaWebhook) bool { return w.Status.Tested == token })
	if err != nil {
		return err
	}
	host := cmp.Or(w.Status.Host, "the receiver")
	for {
		rest := c.webhookRequest
		rest.Timeout = max(until.Sub(cluster.now()), webhookPause)
		attempts, err := rest.log(ctx, cluster)
		var missing notHandledError
		switch {
		case errors.As(err, &missing): // the last look at the log had less time than --timeout, so its error would name another one
			return c.noAttempt(w, host, missing.reason)
		case err != nil:
			return fmt.Errorf("the test event is queued for %s; how its attempt ended is not known: %w", host, err)
		}
		for _, attempt := range slices.Backward(attempts) { // the first one
			if attempt.Event != testEvent+token {
				continue
			}
			if attempt.Status/100 == 2 {
				_, err := fmt.Fprintf(out, "%s accepted a test event (%d)\n", host, attempt.Status)
				return err
			}
			return fmt.Errorf("%s did not accept a test event: %s", host, answerOf(attempt))
		}
		if cluster.now().After(until) {
			return c.noAttempt(w, host, "it waits behind other events")
		}
		select {
		case <-time.After(webhookPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// noAttempt is the error of a test event of which no attempt is known.
func (c *webhookTestCommand) noAttempt(w *v1alpha1.MediaWebhook, host, reason string) error {
	return fmt.Errorf("the test event is queued for %s, and no attempt is known after %s: %s; `kubectl mediastack webhook log %s -n %s` shows it later", host, c.Timeout, reason, w.Name, w.Namespace)
}

// answerOf returns what an attempt ended with.
func answerOf(attempt v1alpha1.WebhookAttempt) string {
	if attempt.Status != 0 {
		return strings.TrimSpace(fmt.Sprint(attempt.Status, " ", attempt.Error))
	}
	return cmp.Or(attempt.Error, "no answer")
}

// webhookReplayCommand sends events again.
type webhookReplayCommand struct {
	webhookRequest `embed:""`

	Since  string   `xor:"which" required:"" help:"Send the events since this time (RFC 3339, such as 2026-11-28T12:00:00Z), or since a duration ago, such as 2h."`
	Events []string `xor:"which" required:"" help:"Ids of up to 100 events, with commas between them."`
}

// maxReplayed is how many events one replay can name.
const maxReplayed = 100

// Run asks for the events again, and waits until they are queued.
func (c *webhookReplayCommand) Run(ctx context.Context, cluster *cluster, out io.Writer) error {
	token := newToken()
	annotations := map[string]string{v1alpha1.AnnotationReplay: token}
	var which string
	if c.Since != "" {
		since, err := sinceOf(c.Since, cluster.now())
		if err != nil {
			return err
		}
		annotations[v1alpha1.AnnotationReplaySince] = since.UTC().Format(time.RFC3339)
		which = "the events since " + since.UTC().Format(time.RFC3339)
	} else {
		if len(c.Events) > maxReplayed {
			return fmt.Errorf("--events has %d ids, more than %d: nothing was sent", len(c.Events), maxReplayed)
		}
		annotations[v1alpha1.AnnotationReplayEvents] = strings.Join(c.Events, ",")
		which = counted(int64(len(c.Events)), "event")
	}
	w, err := c.ask(ctx, cluster, annotations, func(w *v1alpha1.MediaWebhook) bool { return w.Status.Replayed == token })
	if err != nil {
		return err
	}
	if w.Status.ReplayError != "" {
		return fmt.Errorf("not everything is sent again to %s: %s", cmp.Or(w.Status.Host, "the receiver"), w.Status.ReplayError)
	}
	_, err = fmt.Fprintf(out, "%s: queued for %s\n", which, cmp.Or(w.Status.Host, "the receiver"))
	return err
}

// sinceOf returns the time that a text names.
func sinceOf(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	since, err := time.Parse(time.RFC3339, text)
	if err != nil || since.After(now) {
		return since, fmt.Errorf("--since must be a time of the past such as 2026-11-28T12:00:00Z, or a duration such as 2h, not %q", text)
	}
	return since, nil
}

// webhookLogCommand shows the last attempts.
type webhookLogCommand struct {
	webhookRequest `embed:""`
}

// log asks for the last attempts, newest first.
func (r *webhookRequest) log(ctx context.Context, cluster *cluster) ([]v1alpha1.WebhookAttempt, error) {
	token := newToken()
	w, err := r.ask(ctx, cluster, map[string]string{v1alpha1.AnnotationShowLog: token}, func(w *v1alpha1.MediaWebhook) bool { return w.Status.Log != nil && w.Status.Log.Request == token })
	if err != nil {
		return nil, err
	}
	return w.Status.Log.Attempts, nil
}

// Run asks for the log, prints it, and removes it.
func (c *webhookLogCommand) Run(ctx context.Context, cluster *cluster, out io.Writer) error {
	attempts, err := c.log(ctx, cluster)
	if err != nil {
		return err
	}
	if len(attempts) == 0 {
		_, err := fmt.Fprintln(out, "no attempts")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "TIME\tEVENT\tTYPE\tATTEMPT\tANSWER\tMILLISECONDS")
	for _, attempt := range attempts {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%d\n", attempt.At.UTC().Format(time.RFC3339), attempt.Event, cmp.Or(attempt.Type, "-"), attempt.Number, answerOf(attempt), attempt.DurationMilliseconds)
	}
	return table.Flush()
}

// newToken returns the token of a request. A former request never has it.
func newToken() string { return "kubectl-" + strings.ToLower(rand.Text()) }

// ask sets annotations, waits until the status answers, and removes them.
func (r *webhookRequest) ask(ctx context.Context, cluster *cluster, annotations map[string]string, answered func(*v1alpha1.MediaWebhook) bool) (answer *v1alpha1.MediaWebhook, err error) {
	w := &v1alpha1.MediaWebhook{}
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: cluster.namespace, Name: r.Name}, w); err != nil {
		return nil, err
	}
	if w.DeletionTimestamp != nil {
		return nil, fmt.Errorf("MediaWebhook %s/%s is being deleted; nothing was asked for", w.Namespace, w.Name)
	}
	// What an interrupted command left would be part of this request.
	stale := map[string]*string{}
	for _, name := range []string{v1alpha1.AnnotationReplaySince, v1alpha1.AnnotationReplayEvents} {
		if _, replays := annotations[v1alpha1.AnnotationReplay]; replays {
			stale[name] = nil
		}
	}
	set := stale
	for name, value := range annotations {
		set[name] = &value
	}
	before, until := w.Status.RequestError, cluster.now().Add(staleError)
	// Ctrl-C does not end this request: it would not be known whether there is something to remove.
	asking, asked := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	err = setAnnotations(asking, cluster, w, set)
	if asked(); err != nil {
		return nil, err
	}
	defer func() {
		remove := map[string]*string{}
		for name := range annotations {
			remove[name] = nil
		}
		// Also after Ctrl-C: the log stays in the status as long as the annotation.
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		if failed := client.IgnoreNotFound(setAnnotations(cleaning, cluster, w.DeepCopy(), remove)); failed != nil {
			err = errors.Join(err, fmt.Errorf("remove the annotations of the request: %w", failed))
		}
	}()
	waiting, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	for {
		if err := cluster.Get(waiting, client.ObjectKeyFromObject(w), w); err != nil && waiting.Err() == nil {
			return nil, err
		}
		switch {
		case waiting.Err() == nil && answered(w):
			return w.DeepCopy(), nil
		case waiting.Err() == nil && rejects(w, annotations) && (w.Status.RequestError != before || cluster.now().After(until)):
			return nil, fmt.Errorf("the operator rejects the request: %s", w.Status.RequestError)
		}
		select {
		case <-time.After(webhookPause):
		case <-waiting.Done():
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, notHandledError{r.Timeout, cmp.Or(explanationOf(w), "the operator or the runtime does not run, or is busy; --timeout waits longer")}
		}
	}
}

// notHandledError is the error of a request without an answer.
type notHandledError struct {
	within time.Duration
	reason string
}

// Error returns the text.
func (e notHandledError) Error() string {
	return fmt.Sprintf("the request was not handled within %s: %s", e.within, e.reason)
}

// rejects reports whether the operator rejects one of the annotations. Others may have left a malformed one.
func rejects(w *v1alpha1.MediaWebhook, annotations map[string]string) bool {
	for name := range annotations {
		if strings.Contains(w.Status.RequestError, name+" ") {
			return true
		}
	}
	return false
}

// setAnnotations sets annotations, and removes those without a value.
func setAnnotations(ctx context.Context, cluster *cluster, w *v1alpha1.MediaWebhook, annotations map[string]*string) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations, "uid": w.UID}})
	if err != nil {
		return err
	}
	err = cluster.Patch(ctx, w, client.RawPatch(types.MergePatchType, data))
	if apierrors.IsConflict(err) {
		return fmt.Errorf("MediaWebhook %s/%s was replaced by another one: %w", w.Namespace, w.Name, err)
	}
	return err
}
