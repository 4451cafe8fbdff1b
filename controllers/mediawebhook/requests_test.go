package mediawebhook

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/webhook"
)

func TestParseRequests_TakesAllThatCanBeUsed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	const test, replay, since, events, log = v1alpha1.AnnotationSendTestEvent, v1alpha1.AnnotationReplay, v1alpha1.AnnotationReplaySince, v1alpha1.AnnotationReplayEvents, v1alpha1.AnnotationShowLog
	ids := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("1-%d", i))
		}
		return strings.Join(list, ",")
	}
	for name, c := range map[string]struct {
		annotations map[string]string
		want        requests
		wrong       []string // texts of the error
	}{
		"nothing":          {nil, requests{}, nil},
		"others":           {map[string]string{"example.org/a": "b", since: "x"}, requests{}, nil},
		"a test and a log": {map[string]string{test: "a.b_c-1", log: "2"}, requests{Requests: webhook.Requests{Test: "a.b_c-1"}, log: "2"}, nil},
		"a replay since":   {map[string]string{replay: "r", since: "2026-11-28T11:00:00Z"}, requests{Requests: webhook.Requests{Replay: "r", Since: now.Add(-time.Hour)}}, nil},
		"a replay of ids":  {map[string]string{replay: "r", events: "1-2, 1-3"}, requests{Requests: webhook.Requests{Replay: "r", Events: []string{"1-2", "1-3"}}}, nil},
		"tokens":           {map[string]string{test: "", log: strings.Repeat("a", 64)}, requests{}, []string{test + " must be", log + " must be"}},
		"a token with a space does not keep others": {map[string]string{test: "a b", log: "2"}, requests{log: "2"}, []string{test}},
		"a replay of nothing":                       {map[string]string{replay: "r"}, requests{}, []string{"needs exactly one of"}},
		"a replay of both":                          {map[string]string{replay: "r", since: "2026-11-28T11:00:00Z", events: "1-2", test: "t"}, requests{Requests: webhook.Requests{Test: "t"}}, []string{"needs exactly one of"}},
		"no time":                                   {map[string]string{replay: "r", since: "yesterday"}, requests{}, []string{since}},
		"the future":                                {map[string]string{replay: "r", since: "2026-11-28T12:00:01Z"}, requests{}, []string{"of the past"}},
		"no ids":                                    {map[string]string{replay: "r", events: ""}, requests{}, []string{events}},
		"an empty id":                               {map[string]string{replay: "r", events: "1-2,"}, requests{}, []string{events}},
		"too many":                                  {map[string]string{replay: "r", events: ids(101)}, requests{}, []string{"100 ids at most"}},
		"many":                                      {map[string]string{replay: "r", events: ids(100)}, requests{Requests: webhook.Requests{Replay: "r", Events: strings.Split(ids(100), ",")}}, nil},
	} {
		got, err := parseRequests(c.annotations, now)
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(requests{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if (err != nil) != (len(c.wrong) > 0) {
			t.Errorf("%s: %v", name, err)
		}
		for _, text := range c.wrong {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v lacks %q", name, err, text)
			}
		}
	}
}

func TestHostOf_AcceptsAddressesOfReceivers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://hooks.example.org/in?token=a": "hooks.example.org",
		"http://10.0.0.1:8080":                 "10.0.0.1:8080",
		"https://[2001:db8::1]:8443/":          "[2001:db8::1]:8443",
		"":                                     "",
		"hooks.example.org":                    "",
		"postgres://a:b@db/c":                  "",
		"https://user@example.org/":            "",
		"https://example.org/#a":               "",
		"https:///path":                        "",
		"https://:443/":                        "",
		"https:opaque":                         "",
		"https://example.org/\n":               "",
		"https://ü.example/":                   "",
		"https://a..example/":                  "",
		"https://example.org:0/":               "",
		"https://example.org:99999/":           "",
		`https://example.org\@b/`:              "",
		"https://[fe80::1%25eth0]/":            "",
		"https://exa mple.org/":                "",
		"https://example.org/%zz":              "",
		"https://example.org/" + strings.Repeat("a", 2048-20): "example.org",
		"https://example.org/" + strings.Repeat("a", 2048-19): "",
	} {
		host, err := hostOf(text)
		if host != want || (err == nil) != (want != "") {
			t.Errorf("%.60q: %q, %v", text, host, err)
		}
	}
}

func TestKeepHandled_AsksForNothingAgain(t *testing.T) {
	t.Parallel()
	object := &v1alpha1.MediaWebhook{Status: v1alpha1.MediaWebhookStatus{Tested: "t1", Replayed: "r1"}}
	object.Annotations = map[string]string{v1alpha1.AnnotationSendTestEvent: "-", v1alpha1.AnnotationReplay: "r1", v1alpha1.AnnotationReplaySince: "yesterday"}
	asked, err := parseRequests(object.Annotations, time.Now())
	asked.keepHandled(object)
	if err == nil || asked.Test != "t1" || asked.Replay != "r1" {
		t.Errorf("%+v, %v", asked, err)
	}
	object.Annotations = map[string]string{v1alpha1.AnnotationSendTestEvent: "t2", v1alpha1.AnnotationShowLog: "-"}
	asked, err = parseRequests(object.Annotations, time.Now())
	asked.keepHandled(object)
	if err == nil || asked.Test != "t2" || asked.Replay != "" {
		t.Errorf("%+v, %v", asked, err)
	}
}

// It went wrong: the object of a full queue was reconciled every two seconds until a receiver had taken half of it.
func TestHandledSoon_WaitsForTheComparisonOtherwise(t *testing.T) {
	t.Parallel()
	asked := requests{Requests: webhook.Requests{Test: "t2", Replay: "r2"}}
	for name, c := range map[string]struct {
		asked     requests
		state     webhook.State
		suspended bool
		want      bool
	}{
		"a test and a replay":  {asked, webhook.State{Tested: "t1"}, false, true},
		"a replay":             {asked, webhook.State{Tested: "t2", Replayed: "r1"}, false, true},
		"both are handled":     {asked, webhook.State{Tested: "t2", Replayed: "r2"}, false, false},
		"nothing is asked for": {requests{}, webhook.State{Tested: "t1"}, false, false},
		"a full queue":         {asked, webhook.State{Full: true}, false, false},
		"an ended webhook":     {asked, webhook.State{Ended: true}, false, false},
		"a suspended one":      {asked, webhook.State{}, true, false},
	} {
		if got := c.asked.handledSoon(c.state, c.suspended); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
