package mediawebhook

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
)

func secretOf(fill byte, n int) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, n))
}

func TestParseSecret_AcceptsWhatReceiversCanUse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		secretOf(1, 24): 24, secretOf(1, 64): 64, newSecret(): 32,
		secretOf(1, 23): 0, secretOf(1, 65): 0, "": 0, "whsec_": 0, strings.TrimPrefix(secretOf(1, 24), "whsec_"): 0,
		secretOf(1, 24) + "\n": 0, secretOf(1, 24) + " ": 0, " " + secretOf(1, 24): 0, strings.ToUpper(secretOf(1, 24)): 0,
		strings.TrimRight(secretOf(1, 25), "="):                                      0, // Node decodes it, Go does not
		"whsec_" + base64.URLEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, 24)): 0,
		secretOf(1, 24)[:20] + "\n" + secretOf(1, 24)[20:]:                           0,
	} {
		raw, valid := parseSecret(text)
		if valid != (want > 0) || len(raw) != want {
			t.Errorf("%q: %d bytes, %v", text, len(raw), valid)
		}
	}
}

func TestNewSecret_IsAnotherOneEachTime(t *testing.T) {
	t.Parallel()
	if one, another := newSecret(), newSecret(); one == another {
		t.Error("two secrets are equal")
	}
}

func TestSecretState_FollowsGenerationAndOverlap(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 123456789, time.UTC)
	second := now.Truncate(time.Second)
	const hour = time.Hour
	for name, c := range map[string]struct {
		before     secretState
		generation int64
		overlap    time.Duration
		want       secretState
	}{
		"the first one":                     {secretState{generation: 1}, 1, hour, secretState{generation: 1, secret: "new"}},
		"nothing to do":                     {secretState{generation: 1, secret: "old"}, 1, hour, secretState{generation: 1, secret: "old"}},
		"raised":                            {secretState{generation: 1, secret: "old"}, 3, hour, secretState{generation: 3, secret: "new", previous: "old", until: second.Add(hour)}},
		"raised without overlap":            {secretState{generation: 1, secret: "old"}, 2, 0, secretState{generation: 2, secret: "new"}},
		"raised with a shorter one":         {secretState{generation: 1, secret: "old"}, 2, time.Millisecond, secretState{generation: 2, secret: "new"}},
		"raised in an overlap":              {secretState{2, "old", "older", now.Add(hour)}, 3, 2 * hour, secretState{3, "new", "old", second.Add(2 * hour)}},
		"lowered":                           {secretState{2, "old", "older", now.Add(hour)}, 1, hour, secretState{2, "old", "older", now.Add(hour)}},
		"in an overlap":                     {secretState{2, "old", "older", now.Add(1)}, 2, hour, secretState{2, "old", "older", now.Add(1)}},
		"at its end":                        {secretState{2, "old", "older", now}, 2, hour, secretState{generation: 2, secret: "old"}},
		"an end that nobody waits for":      {secretState{2, "old", "older", now.Add(169 * hour)}, 2, hour, secretState{generation: 2, secret: "old"}},
		"lost in an overlap":                {secretState{2, "", "older", now.Add(hour)}, 2, hour, secretState{2, "new", "older", now.Add(hour)}},
		"lost, and raised":                  {secretState{generation: 2}, 5, hour, secretState{generation: 5, secret: "new"}},
		"lost, and lowered at a git revert": {secretState{generation: 4}, 1, hour, secretState{generation: 4, secret: "new"}},
	} {
		got := c.before.next(c.generation, c.overlap, now, func() string { return "new" })
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(secretState{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestSecret_HoldsItsState(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	object := &v1alpha1.MediaWebhook{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "site", UID: "1"}}
	object.Spec.AccountRef = &v1alpha1.WebhookAccountReference{Name: "demo"}
	state := secretState{generation: 7, secret: secretOf(1, 32), previous: secretOf(2, 24), until: until}
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "site.webhook.media", Labels: map[string]string{"team": "a"}, ResourceVersion: "4",
		OwnerReferences: []metav1.OwnerReference{{Kind: "MediaWebhook", Name: "site", UID: "before", APIVersion: "mediastack.dev/v1alpha1", Controller: new(true)}}},
		Data: map[string][]byte{"more": []byte("mine")}}
	secret := desired(object, foreign, state)
	if got := stateOf(secret, 1); got != state {
		t.Errorf("the Secret holds %+v, want %+v", got, state)
	}
	if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != "1" || secret.Labels["team"] != "a" || string(secret.Data["more"]) != "mine" || secret.ResourceVersion != "4" {
		t.Errorf("the Secret is %+v", secret)
	}
	if after := desired(object, secret, secretState{generation: 7, secret: secretOf(1, 32)}); len(after.Data) != 2 {
		t.Errorf("after the overlap the Secret has %d entries", len(after.Data))
	}
	if got := stateOf(&corev1.Secret{Data: map[string][]byte{"secret": []byte("broken"), "previous": []byte(secretOf(1, 32))}}, 3); got != (secretState{generation: 3}) {
		t.Errorf("a broken Secret holds %+v", got)
	}
}

func TestOwns_IsTheObjectOrANamesakeOfBefore(t *testing.T) {
	t.Parallel()
	object := &v1alpha1.MediaWebhook{ObjectMeta: metav1.ObjectMeta{Name: "site", UID: "1"}}
	for name, c := range map[string]struct {
		owner *metav1.OwnerReference
		want  bool
	}{
		"nobody":               {nil, false},
		"the object":           {&metav1.OwnerReference{APIVersion: "mediastack.dev/v1alpha1", Kind: "MediaWebhook", Name: "site", UID: "1"}, true},
		"a namesake of before": {&metav1.OwnerReference{APIVersion: "mediastack.dev/v1alpha1", Kind: "MediaWebhook", Name: "site", UID: "0"}, true},
		"another webhook":      {&metav1.OwnerReference{APIVersion: "mediastack.dev/v1alpha1", Kind: "MediaWebhook", Name: "other", UID: "0"}, false},
		"an account":           {&metav1.OwnerReference{APIVersion: "mediastack.dev/v1alpha1", Kind: "MediaAccount", Name: "site", UID: "0"}, false},
		"another group":        {&metav1.OwnerReference{APIVersion: "example.org/v1", Kind: "MediaWebhook", Name: "site", UID: "0"}, false},
	} {
		secret := &corev1.Secret{}
		if c.owner != nil {
			c.owner.Controller = new(true)
			secret.OwnerReferences = []metav1.OwnerReference{*c.owner}
		}
		if got := owns(object, secret); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
