package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/wait"
)

func (s *setup) webhook(name string, change func(*v1alpha1.MediaWebhook)) *v1alpha1.MediaWebhook {
	s.t.Helper()
	w := &v1alpha1.MediaWebhook{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	w.Spec.AccountRef, w.Spec.URL = &v1alpha1.WebhookAccountReference{Name: "photos"}, "https://hooks.example.org/in"
	must(s.t, s.Create(s.t.Context(), w))
	w.Status.ObservedGeneration, w.Status.Host = w.Generation, "hooks.example.org"
	if change != nil {
		change(w)
	}
	must(s.t, s.Status().Update(s.t.Context(), w))
	return w
}

// answer does what the operator does once, when the annotations of a webhook ask for something. done waits for it.
func (s *setup) answer(w *v1alpha1.MediaWebhook, annotation string, change func(status *v1alpha1.MediaWebhookStatus, annotations map[string]string)) (done func()) {
	var answering sync.WaitGroup
	answering.Go(func() {
		wait.UntilNone(s.t, func() string {
			found := &v1alpha1.MediaWebhook{}
			if err := s.Get(s.t.Context(), client.ObjectKeyFromObject(w), found); err != nil {
				return err.Error()
			}
			if found.Annotations[annotation] == "" {
				return "nothing asks by " + annotation
			}
			change(&found.Status, found.Annotations)
			if err := s.Status().Update(s.t.Context(), found); err != nil {
				return err.Error()
			}
			return ""
		})
	})
	return answering.Wait
}

// cleaned requires that no annotation is left.
func (s *setup) cleaned(w *v1alpha1.MediaWebhook) {
	s.t.Helper()
	if s.reread(w); len(w.Annotations) != 0 {
		s.t.Errorf("the annotations %v are left", w.Annotations)
	}
}

func TestWebhookList_ShowsWhatNeedsAttentionFirst(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	if code, out, _ := s.call("webhook", "list", "-n", s.namespace); code != 0 || strings.TrimSpace(out) != "no webhooks in the namespace "+s.namespace {
		t.Errorf("without any: %d %q", code, out)
	}
	is := func(kind string, status metav1.ConditionStatus, message string) metav1.Condition {
		c := condition(kind, "AReason", message)
		c.Status = status
		return c
	}
	s.webhook("a-good", func(w *v1alpha1.MediaWebhook) {
		w.Status.Pending = new(int64(3))
		w.Status.Conditions = []metav1.Condition{is("Ready", "True", "it is ready"), is("Delivering", "True", "it is accepted")}
	})
	s.webhook("b-failing", func(w *v1alpha1.MediaWebhook) {
		w.Status.Conditions = []metav1.Condition{is("Ready", "True", "it is ready"), is("Delivering", "False", "the receiver answered 503")}
	})
	s.webhook("c-stalled", func(w *v1alpha1.MediaWebhook) {
		w.Status.Conditions = []metav1.Condition{is("Ready", "False", "no such type"), is("Delivering", "Unknown", "no such type")}
	})
	code, out, log := s.call("webhook", "list", "-n", s.namespace)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 4 {
		t.Fatalf("%d %s%s", code, out, log)
	}
	for i, want := range [][]string{
		{"NAME", "HOST", "DELIVERING", "PENDING"},
		{"c-stalled", "False", "Unknown", "no such type"},
		{"b-failing", "photos", "hooks.example.org", "True", "False", "-", "the receiver answered 503"},
		{"a-good", "3"},
	} {
		for _, text := range want {
			if !strings.Contains(lines[i], text) {
				t.Errorf("line %d is %q, without %q", i, lines[i], text)
			}
		}
	}
	if strings.Contains(out, s.namespace) || strings.Contains(out, "NAMESPACE") {
		t.Errorf("the namespace is listed, which all have:\n%s", out)
	}
	if _, out, _ := s.call("webhook", "list", "-A"); !strings.Contains(out, s.namespace) || !strings.HasPrefix(out, "NAMESPACE") {
		t.Errorf("-A does not list the namespace:\n%s", out)
	}
}

func TestWebhookTest_WaitsForTheAnswer(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	w := s.webhook("site", func(w *v1alpha1.MediaWebhook) {
		w.Status.RequestError = "annotations: mediastack.dev/replay must be better"
	})
	for name, c := range map[string]struct {
		attempt v1alpha1.WebhookAttempt
		code    int
		want    string
	}{
		"accepted":      {v1alpha1.WebhookAttempt{Status: 204}, 0, "hooks.example.org accepted a test event (204)"},
		"an error":      {v1alpha1.WebhookAttempt{Status: 500}, exitFailed, "hooks.example.org did not accept a test event: 500"},
		"a redirection": {v1alpha1.WebhookAttempt{Status: 302}, exitFailed, "did not accept a test event: 302"},
		"no answer":     {v1alpha1.WebhookAttempt{Error: "the receiver has no public address"}, exitFailed, "the receiver has no public address"},
	} {
		asked := make(chan string, 1)
		done := s.answer(w, v1alpha1.AnnotationSendTestEvent, func(status *v1alpha1.MediaWebhookStatus, annotations map[string]string) {
			status.Tested = annotations[v1alpha1.AnnotationSendTestEvent]
			select {
			case asked <- status.Tested:
			default: // the update is tried again
			}
		})
		var logging sync.WaitGroup
		logging.Go(func() { // the first look at the log comes before the attempt
			test := <-asked
			at := metav1.NewTime(time.Now())
			others := []v1alpha1.WebhookAttempt{{At: at, Event: "1-7", Status: 200, Number: 1}}
			first := ""
			s.answer(w, v1alpha1.AnnotationShowLog, func(status *v1alpha1.MediaWebhookStatus, annotations map[string]string) {
				first = annotations[v1alpha1.AnnotationShowLog]
				status.Log = &v1alpha1.WebhookLog{Request: first, Attempts: others}
			})()
			wait.Until(t, "the command looks again", func() bool {
				found := &v1alpha1.MediaWebhook{}
				again := s.Get(t.Context(), client.ObjectKeyFromObject(w), found) == nil && found.Annotations[v1alpha1.AnnotationShowLog] != ""
				return again && found.Annotations[v1alpha1.AnnotationShowLog] != first
			})
			c.attempt.At, c.attempt.Event, c.attempt.Number = at, "test-"+test, 1
			second := c.attempt
			second.Number, second.Status = 2, 200
			s.answer(w, v1alpha1.AnnotationShowLog, func(status *v1alpha1.MediaWebhookStatus, annotations map[string]string) {
				status.Log = &v1alpha1.WebhookLog{Request: annotations[v1alpha1.AnnotationShowLog], Attempts: append([]v1alpha1.WebhookAttempt{second, c.attempt}, others...)}
			})()
		})
		code, out, log := s.call("webhook", "test", "site", "-n", s.namespace)
		done()
		logging.Wait()
		if code != c.code || !strings.Contains(out+log, c.want) || (code == 0) != (out != "") {
			t.Errorf("%s: %d %s%s", name, code, out, log)
		}
		s.cleaned(w)
	}
	if code, _, log := s.call("webhook", "test", "missing", "-n", s.namespace); code != exitFailed || !strings.Contains(log, "not found") {
		t.Errorf("of a missing webhook: %d %s", code, log)
	}
}

func TestWebhookTest_SaysWhyNothingHappened(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	w := s.webhook("site", func(w *v1alpha1.MediaWebhook) {
		c := condition(v1alpha1.ConditionReady, v1alpha1.ReasonAccountNotReady, "MediaAccount photos not found in this namespace")
		c.Status = metav1.ConditionFalse
		w.Status.Conditions = []metav1.Condition{c}
	})
	code, out, log := s.call("webhook", "test", "site", "--timeout", "1s", "-n", s.namespace)
	if code != exitFailed || out != "" || !strings.Contains(log, "not handled within 1s: MediaAccount photos not found") {
		t.Errorf("%d %s%s", code, out, log)
	}
	s.cleaned(w)
	ctx, cancel := context.WithCancel(t.Context())
	var interrupting sync.WaitGroup
	interrupting.Go(func() {
		wait.Until(t, "the command asks", func() bool {
			found := &v1alpha1.MediaWebhook{}
			return s.Get(t.Context(), client.ObjectKeyFromObject(w), found) == nil && len(found.Annotations) > 0
		})
		cancel()
	})
	defer interrupting.Wait()
	if code := s.callIn(ctx, "webhook", "test", "site", "-n", s.namespace); code != exitFailed {
		t.Errorf("an interrupted command ends with %d", code)
	}
	s.cleaned(w)
}

// The event waits behind others, while the receiver fails: the error names the whole timeout, and what is known of the receiver.
func TestWebhookTest_SaysWhyNoAttemptIsKnown(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	w := s.webhook("site", func(w *v1alpha1.MediaWebhook) {
		c := condition(v1alpha1.ConditionDelivering, v1alpha1.ReasonFailing, "the receiver answered 401")
		c.Status = metav1.ConditionFalse
		w.Status.Conditions = []metav1.Condition{c}
	})
	done := s.answer(w, v1alpha1.AnnotationSendTestEvent, func(status *v1alpha1.MediaWebhookStatus, annotations map[string]string) {
		status.Tested = annotations[v1alpha1.AnnotationSendTestEvent]
	})
	code, out, log := s.call("webhook", "test", "site", "--timeout", "5s", "-n", s.namespace)
	done()
	if code != exitFailed || out != "" || !strings.Contains(log, "no attempt is known after 5s: the receiver answered 401; `kubectl mediastack webhook log site") {
		t.Errorf("%d %s%s", code, out, log)
	}
	s.cleaned(w)
}

func TestWebhookReplay_NamesTheEvents(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	w := s.webhook("site", nil)
	for name, c := range map[string]struct {
		args []string
		want func(map[string]string) bool
		text string
	}{
		"a time": {[]string{"--since", "2026-01-02T03:04:05+01:00"}, func(a map[string]string) bool {
			return a[v1alpha1.AnnotationReplaySince] == "2026-01-02T02:04:05Z"
		}, "the events since 2026-01-02T02:04:05Z: queued for hooks.example.org"},
		"a duration": {[]string{"--since", "2h"}, func(a map[string]string) bool {
			at, err := time.Parse(time.RFC3339, a[v1alpha1.AnnotationReplaySince])
			return err == nil && time.Since(at) > time.Hour
		}, "queued for"},
		"ids": {[]string{"--events", "1-2,1-3"}, func(a map[string]string) bool {
			return a[v1alpha1.AnnotationReplayEvents] == "1-2,1-3" && a[v1alpha1.AnnotationReplaySince] == ""
		}, "2 events: queued for hooks"},
	} {
		// A command that was killed left this one.
		s.reread(w)
		w.Annotations = map[string]string{v1alpha1.AnnotationReplaySince: "2020-01-01T00:00:00Z"}
		must(t, s.Update(t.Context(), w))
		asked := map[string]string{}
		done := s.answer(w, v1alpha1.AnnotationReplay, func(status *v1alpha1.MediaWebhookStatus, annotations map[string]string) {
			status.Replayed, asked = annotations[v1alpha1.AnnotationReplay], annotations
		})
		code, out, log := s.call(append([]string{"webhook", "replay", "site", "-n", s.namespace}, c.args...)...)
		done()
		if code != 0 || !strings.Contains(out, c.text) || !c.want(asked) {
			t.Errorf("%s: %d %s%s with %v", name, code, out, log, asked)
		}
		s.cleaned(w)
	}
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"neither":          {nil, exitUsage},
		"both":             {[]string{"--since", "2h", "--events", "1-2"}, exitUsage},
		"no time":          {[]string{"--since", "yesterday"}, exitFailed},
		"a future time":    {[]string{"--since", "2999-01-01T00:00:00Z"}, exitFailed},
		"too many of them": {[]string{"--events", strings.Repeat("1-2,", 100) + "1-2"}, exitFailed},
	} {
		s.reread(w)
		before := w.ResourceVersion
		if code, _, log := s.call(append([]string{"webhook", "replay", "site", "-n", s.namespace}, c.args...)...); code != c.code {
			t.Errorf("%s: %d %s", name, code, log)
		}
		if s.reread(w); w.ResourceVersion != before {
			t.Errorf("%s: the object was changed", name)
		}
	}
}

func TestWebhookReplay_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	w := s.webhook("site", nil)
	for want, change := range map[string]func(*v1alpha1.MediaWebhookStatus, string){
		"not everything is sent again to hooks.example.org: the journal begins later": func(status *v1alpha1.MediaWebhookStatus, token string) {
			status.Replayed, status.ReplayError = token, "the journal begins later"
		},
		"the operator rejects the request: annotations: mediastack.dev/replay-events must be ids": func(status *v1alpha1.MediaWebhookStatus, _ string) {
			status.RequestError = "annotations: mediastack.dev/replay-events must be ids"
		},
	} {
		s.reread(w)
		w.Status.RequestError = "" // as the operator does when the annotations are removed
		must(t, s.Status().Update(t.Context(), w))
		done := s.answer(w, v1alpha1.AnnotationReplay, func(status *v1alpha1.MediaWebhookStatus, annotations map[string]string) {
			change(status, annotations[v1alpha1.AnnotationReplay])
		})
		code, out, log := s.call("webhook", "replay", "site", "--events", "1-2", "-n", s.namespace)
		done()
		if code != exitFailed || out != "" || !strings.Contains(log, want) {
			t.Errorf("%s: %d %s%s", want, code, out, log)
		}
		s.cleaned(w)
	}
}

func TestWebhookLog_ShowsTheAttempts(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	w := s.webhook("site", nil)
	at := metav1.NewTime(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC))
	for _, attempts := range [][]v1alpha1.WebhookAttempt{nil, {
		{At: at, Event: "1-7", Type: "media.sealed", Number: 2, Status: 204, DurationMilliseconds: 12},
		{At: at, Event: "1-6", Type: "media.updated", Number: 1, Error: "the name of the host does not exist"},
	}} {
		done := s.answer(w, v1alpha1.AnnotationShowLog, func(status *v1alpha1.MediaWebhookStatus, annotations map[string]string) {
			status.Log = &v1alpha1.WebhookLog{Request: annotations[v1alpha1.AnnotationShowLog], Attempts: attempts}
		})
		code, out, log := s.call("webhook", "log", "site", "-n", s.namespace)
		done()
		wants := []string{"no attempts"}
		if len(attempts) > 0 {
			wants = []string{"ANSWER", "2026-11-28T12:00:00Z  1-7", "media.sealed   2        204", "1-6", "the name of the host does not exist"}
		}
		for _, want := range wants {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("%d %s%s lacks %q", code, out, log, want)
			}
		}
		s.cleaned(w)
	}
}
