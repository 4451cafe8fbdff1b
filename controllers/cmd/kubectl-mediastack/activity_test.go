package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/wait"
)

// plainKey is in no output.
const plainKey = "msk_001a-key-of-the-test"

// secret makes the Secret of an app of the account photos.
func (s *setup) secret(app, baseURL string) {
	s.t.Helper()
	must(s.t, s.Create(s.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: v1alpha1.SecretName("photos", app)},
		StringData: map[string]string{v1alpha1.SecretAPIKey: plainKey, v1alpha1.SecretBaseURL: baseURL}}))
}

// answering returns the URL of a server that answers as the service does. hack/test/e2e has the service itself.
func answering(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/events") || r.Header.Get("x-service-apikey") != plainKey {
			http.Error(w, `{"error":"unauthorized","code":"unauthorized"}`, http.StatusUnauthorized)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// activity runs the command, and reports an error if it prints the key.
func (s *setup) activity(args ...string) (code int, out, log string) {
	s.t.Helper()
	code, out, log = s.call(append([]string{"activity", "photos", "-n", s.namespace}, args...)...)
	if strings.Contains(out+log, plainKey) {
		s.t.Errorf("the output has the key:\n%s%s", out, log)
	}
	return code, out, log
}

const (
	deleted  = `{"id": "1-1", "type": "media.deleted", "time": "2026-11-28T09:30:00.123Z", "mediaId": "01a1fd74-5f6f-8afa-b000-3510feddacd9", "actor": {"kind": "login", "name": "Ph\u001b[2Jotos", "email": "a***@example.org"}}`
	reached  = `{"id": "1-2", "type": "usage.threshold", "time": "2026-11-28T10:30:00Z", "actor": {"kind": "service"}, "percent": 90}`
	denied   = `{"id": "1-4", "type": "approval.denied", "time": "2026-11-28T12:30:00Z", "actor": {"kind": "page", "email": "a***@example.org", "askedBy": {"kind": "login", "name": "Photos", "id": "x"}}, "fields": ["delete_media"], "approvalId": "01a1fd74-5f6f-8afa-b000-3510feddacd9"}`
	settings = `{"id": "1-3", "type": "settings.changed", "time": "2026-11-28T11:30:00Z", "fields": ["presets", "useWebP"]}`
)

func page(more bool, next string, events ...string) string {
	return fmt.Sprintf(`{"events": [%s], "next": %q, "more": %v}`, strings.Join(events, ", "), next, more)
}

func TestActivity_PrintsTheEventsOfAllPages(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	s.secret("default", answering(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("after") {
		case "":
			_, _ = fmt.Fprint(w, page(true, "a", deleted, reached))
		case "a":
			_, _ = fmt.Fprint(w, page(false, "b", settings, denied))
		}
	}))
	code, out, log := s.activity()
	if code != 0 || log != "" {
		t.Errorf("%d %s", code, log)
	}
	for i, line := range []string{"WHEN WHO WHAT ITEM",
		"2026-11-28T09:30:00Z login Ph[2Jotos a***@example.org media.deleted 01a1fd74-5f6f-8afa-b000-3510feddacd9",
		"2026-11-28T10:30:00Z service usage.threshold 90% -", "2026-11-28T11:30:00Z - settings.changed presets,useWebP -",
		"2026-11-28T12:30:00Z page a***@example.org, asked by login Photos approval.denied delete_media -"} {
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != 5 || strings.Join(strings.Fields(lines[i]), " ") != line {
			t.Errorf("line %d is not %q of\n%s", i, line, out)
		}
	}
	code, out, _ = s.activity("--output", "json")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); code != 0 || len(lines) != 4 || lines[1] != `{"id":"1-2","type":"usage.threshold","time":"2026-11-28T10:30:00Z","actor":{"kind":"service"},"percent":90}` {
		t.Errorf("as JSON: %d\n%s", code, out)
	}
}

func TestActivity_AsksForWhatIsWanted(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	asked := make(chan string, 10)
	url := answering(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path + "?" + r.URL.RawQuery
		now := time.Now().UTC()
		_, _ = fmt.Fprint(w, page(false, "a", fmt.Sprintf(`{"type": "login", "time": %q}`, now.Add(-3*time.Hour).Format(time.RFC3339)), fmt.Sprintf(`{"type": "key.ended", "time": %q}`, now.Format(time.RFC3339))))
	})
	s.secret("web", "http://127.0.0.1:1") // --url is used instead
	code, out, log := s.activity("--app", "web", "--types", "login,key.ended", "--since", "2h", "--url", url+"/base/")
	if got := wait.Receive(t, "a request", asked); code != 0 || got != "/base/events?limit=1000&types=login%2Ckey.ended" {
		t.Errorf("%d %s: it asks for %s", code, log, got)
	}
	if strings.Contains(out, "login") || !strings.Contains(out, "key.ended") {
		t.Errorf("--since 2h lists\n%s", out)
	}
	if code, out, _ := s.activity("--app", "web", "--since", "1ns", "--url", url); code != 0 || out != "no events\n" {
		t.Errorf("without an event: %d %q", code, out)
	}
}

func TestActivity_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	answers := func(status int, body string) func(*testing.T, *setup) []string {
		return func(t *testing.T, s *setup) []string {
			s.secret("default", answering(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, body, status) }))
			return nil
		}
	}
	for name, c := range map[string]struct {
		prepare func(*testing.T, *setup) (args []string)
		want    []string
	}{
		"there is no Secret": {func(*testing.T, *setup) []string { return []string{"--app", "web"} }, []string{"there is no Secret", "photos.web.media", "MediaAccount photos with the app web"}},
		"the Secret has no key": {func(t *testing.T, s *setup) []string {
			must(t, s.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "photos.default.media"}}))
			return nil
		}, []string{"has no entry apiKey"}},
		"the account has no journal":      {answers(409, `{"error": "conflict", "code": "conflict", "detail": "the account has no journal"}`), []string{"409: the account has no journal", `patch mediaaccount photos --type merge -p '{"spec":{"journal":{}}}'`}},
		"the type is unknown":             {answers(400, `{"error": "invalid", "code": "invalid_request", "detail": "there is no event type"}`), []string{"there is no event type"}},
		"the account is suspended":        {answers(403, `{"error": "forbidden", "code": "forbidden", "detail": "the account is suspended"}`), []string{"403: the account is suspended"}},
		"the service has another brand":   {func(t *testing.T, s *setup) []string { answers(200, "")(t, s); return []string{"--brand", "acme"} }, []string{"does not accept the key", "--brand"}},
		"the answer is a page of a proxy": {answers(200, "<html>"), []string{"is not one of mediastack"}},
		"the answer is JSON of another":   {answers(200, `{"events": []}`), []string{"is not one of mediastack"}},
		"the service cannot be reached":   {func(_ *testing.T, s *setup) []string { s.secret("default", "http://127.0.0.1:1"); return nil }, []string{"cannot be reached from here", "--url"}},
		"the URL is none": {func(_ *testing.T, s *setup) []string {
			s.secret("default", "http://x")
			return []string{"--url", "ftp://x"}
		}, []string{"must be an http or https URL"}},
		"the time is negative": {func(*testing.T, *setup) []string { return []string{"--since=-2h"} }, []string{"must not be negative"}},
		"another server answers elsewhere": {func(t *testing.T, s *setup) []string {
			to := answering(t, func(http.ResponseWriter, *http.Request) { t.Error("the redirect is followed, with the key") })
			to += "/events"
			s.secret("default", answering(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusTemporaryRedirect) }))
			return nil
		}, []string{"answers 307"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t)
			args := c.prepare(t, s)
			code, out, log := s.activity(args...)
			if code != exitFailed || out != "" {
				t.Errorf("%d %q", code, out)
			}
			for _, want := range c.want {
				if !strings.Contains(log, want) {
					t.Errorf("%q, without %q", log, want)
				}
			}
		})
	}
}

// The command has the rights of the user, and no others.
func TestActivity_NeedsTheRightToReadTheSecret(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	s.secret("default", "http://127.0.0.1:1")
	must(t, s.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "nobody"}}))
	var out, log bytes.Buffer
	code := run(t.Context(), []string{"activity", "photos", "-n", s.namespace, "--kubeconfig", kubetest.ServiceAccountKubeconfig(t, s.namespace, "nobody")}, &out, &log)
	if code != exitFailed || !strings.Contains(log.String(), "you may not read its Secret "+s.namespace+"/photos.default.media") {
		t.Errorf("%d %s", code, &log)
	}
}

func TestActivity_FollowsUntilItIsEnded(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	var requests atomic.Int64
	asked := make(chan string, 10)
	s.secret("default", answering(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Query().Get("after") + " " + r.URL.Query().Get("wait")
		switch requests.Add(1) {
		case 1:
			_, _ = fmt.Fprint(w, page(false, "a", deleted))
		case 2:
			_, _ = fmt.Fprint(w, page(false, "b", reached))
		case 3:
			http.Error(w, `{"error": "gone", "code": "gone", "detail": "the database was restored"}`, http.StatusGone)
		case 4:
			_, _ = fmt.Fprint(w, page(false, "c"))
		case 5:
			http.Error(w, "", http.StatusServiceUnavailable)
		case 6:
			_, _ = fmt.Fprint(w, page(false, "d", settings))
		default:
			<-r.Context().Done()
		}
	}))
	ctx, end := context.WithCancel(t.Context())
	var out, log check.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"activity", "photos", "-n", s.namespace, "--follow", "--kubeconfig", kubetest.Shared(t).Kubeconfig()}, &out, &log)
	}()
	for i, want := range []string{" ", "a 30", "b 30", "now ", "c 30", "c 30", "d 30"} {
		if got := wait.Receive(t, "the next request", asked); got != want {
			t.Errorf("request %d has %q, want %q", i, got, want)
		}
	}
	end() // as Ctrl-C
	if code := wait.Receive(t, "the command ends", ended); code != 0 {
		t.Errorf("it exits with %d", code)
	}
	for _, want := range []string{"events may be missing here (the database was restored); going on", "the service answers 503; trying again in 1s"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q, without %q", log.String(), want)
		}
	}
	for _, want := range []string{"media.deleted", "usage.threshold 90%", "settings.changed"} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("%s is not listed once in\n%s", want, out.String())
		}
	}
	if strings.Count(out.String(), "WHEN") != 1 || strings.Contains(out.String()+log.String(), plainKey) {
		t.Errorf("the table is\n%s", out.String())
	}
}
