package operator_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/webhook"
)

// newWebhooks is a harness in which a runtime has published its key. The comparisons of statuses do not happen by themselves.
func newWebhooks(t *testing.T, choose ...func(*options)) (*harness, *keys.Opener) {
	t.Helper()
	b := newHarness(t, append([]func(*options){quiet}, choose...)...)
	return b, b.publishWebhookKey()
}

func (b *harness) publishWebhookKey() *keys.Opener {
	b.t.Helper()
	secret, err := keys.ParseSecret(strings.Repeat("5c", 32), "")
	must(b.t, err)
	opener, err := secret.Opener(keys.PurposeWebhooks)
	must(b.t, err)
	must(b.t, check.ErrorOf(b.database.Installations.TouchRuntime(b.ctx, uuid.New(), "test", time.Hour)))
	must(b.t, check.ErrorOf(b.database.Webhooks.PublishWebhookKey(b.ctx, opener.PublicKey(), true)))
	return opener
}

// webhook creates a MediaWebhook.
func (b *harness) webhook(name, account string, change ...func(*v1alpha1.MediaWebhook)) *v1alpha1.MediaWebhook {
	b.t.Helper()
	object := &v1alpha1.MediaWebhook{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	object.Spec.AccountRef, object.Spec.URL = &v1alpha1.WebhookAccountReference{Name: account}, "https://hooks.example.org:8443/in?token=very-secret"
	for _, change := range change {
		change(object)
	}
	must(b.t, b.Create(b.ctx, object))
	return object
}

// storedWebhook returns the state of a webhook; ok is false if there is none.
func (b *harness) storedWebhook(object *v1alpha1.MediaWebhook) (found webhook.State, ok bool) {
	b.t.Helper()
	must(b.t, b.database.Webhooks.EachWebhook(b.ctx, []string{b.namespace}, func(state webhook.State) {
		if state.UID == string(object.UID) {
			found, ok = state, true
		}
	}))
	return found, ok
}

// notStored waits until a webhook is removed from the database.
func (b *harness) notStored(object *v1alpha1.MediaWebhook) {
	b.t.Helper()
	wait.Until(b.t, "the webhook "+object.Name+" is not in the database", func() bool { _, ok := b.storedWebhook(object); return !ok })
}

// signs waits until the runtime signs with these secrets, the current one first.
func (b *harness) signs(opener *keys.Opener, object *v1alpha1.MediaWebhook, want ...string) webhook.Target {
	b.t.Helper()
	var target webhook.Target
	wait.UntilNone(b.t, func() string {
		target = b.target(opener, object)
		var got []string
		for _, secret := range target.Secrets {
			got = append(got, "whsec_"+base64.StdEncoding.EncodeToString(secret.Key))
		}
		if !slices.Equal(got, want) {
			return fmt.Sprintf("it signs with %d secrets, not with the %d wanted ones", len(got), len(want))
		}
		return ""
	})
	return target
}

// target returns what the runtime decrypts.
func (b *harness) target(opener *keys.Opener, object *v1alpha1.MediaWebhook) (target webhook.Target) {
	b.t.Helper()
	id := queried[[16]byte](b, `SELECT id FROM webhook WHERE object_uid = $1`, string(object.UID))
	receiver, err := b.database.Webhooks.Receiver(b.ctx, id)
	must(b.t, err)
	plain, err := opener.Open(receiver.Sealed)
	must(b.t, err)
	must(b.t, json.Unmarshal(plain, &target))
	return target
}

// queried returns the only value of a statement.
func queried[T any](b *harness, statement string, args ...any) (value T) {
	b.t.Helper()
	must(b.t, testenv.Connections(b.t, b.databaseURL).QueryRow(b.ctx, statement, args...).Scan(&value))
	return value
}

// signingSecret reads the Secret of a webhook.
func (b *harness) signingSecret(name string) *corev1.Secret {
	b.t.Helper()
	secret := &corev1.Secret{}
	must(b.t, b.Get(b.ctx, client.ObjectKey{Namespace: b.namespace, Name: name}, secret))
	return secret
}

func (b *harness) opaque(name string, entries map[string]string) *corev1.Secret {
	b.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}, StringData: entries}
	must(b.t, b.Create(b.ctx, secret))
	return secret
}

// secretOf returns a secret of n bytes.
func secretOf(fill byte, n int) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, n))
}

// says waits until an object's condition has a status, a reason, and a message with all texts.
func (b *harness) says(object client.Object, kind string, status metav1.ConditionStatus, reason string, texts ...string) {
	b.t.Helper()
	wait.UntilNone(b.t, func() string {
		must(b.t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
		if problem := lacks(conditionsOf(object), kind, status, reason); problem != "" {
			return problem
		}
		for _, text := range texts {
			if !strings.Contains(message(object, kind), text) {
				return fmt.Sprintf("the message lacks %q: %s", text, message(object, kind))
			}
		}
		return ""
	})
}

func (b *harness) retention(account *v1alpha1.MediaAccount) string {
	b.t.Helper()
	return queried[string](b, `SELECT coalesce(make_interval(secs => journal_retention)::text, 'none') FROM account WHERE id = $1`, account.Status.AccountID)
}

func TestWebhook_IsStoredWithASecretOfTheOperator(t *testing.T) {
	t.Parallel()
	b, opener := newWebhooks(t)
	account := b.readyAccount("demo")
	hook := b.webhook("site", "demo", func(w *v1alpha1.MediaWebhook) {
		w.Spec.Types, w.Spec.Apps, w.Spec.Groups = []string{string(journal.MediaSealed)}, []string{"web"}, []string{"Group a"}
	})
	b.ready(hook)
	if hook.Status.Host != "hooks.example.org:8443" || hook.Status.SecretName != "site.webhook.media" {
		t.Errorf("the status has the host %q and the Secret %q", hook.Status.Host, hook.Status.SecretName)
	}
	b.shows(hook, v1alpha1.ConditionDelivering, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	if hook.Status.Pending == nil || *hook.Status.Pending != 0 {
		t.Errorf("pending is %v", hook.Status.Pending)
	}
	secret := b.signingSecret("site.webhook.media")
	owner := metav1.GetControllerOf(secret)
	if owner == nil || owner.UID != hook.UID || secret.Labels[v1alpha1.LabelAccount] != "demo" || secret.Labels[v1alpha1.LabelWebhook] != "site" || secret.Annotations[v1alpha1.AnnotationSecretGeneration] != "1" {
		t.Errorf("the Secret has the owner %v, labels %v and annotations %v", owner, secret.Labels, secret.Annotations)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(string(secret.Data["secret"]), "whsec_"))
	if err != nil || len(raw) != 32 || len(secret.Data) != 1 {
		t.Errorf("the Secret has %d entries, and a secret of %d bytes: %v", len(secret.Data), len(raw), err)
	}
	if target := b.signs(opener, hook, string(secret.Data["secret"])); target.URL != hook.Spec.URL {
		t.Error("the URL is another one")
	}
	if got := b.retention(account); got != "96:00:00" {
		t.Errorf("the journal of the account has a retention of %s", got)
	}
	row := queried[string](b, `SELECT concat_ws(' ', types::text, apps::text, groups::text, format, suspended, account_id = $2) FROM webhook WHERE object_uid = $1`, string(hook.UID), account.Status.AccountID)
	if row != `{media.sealed} {web} {"Group a"} standard f t` {
		t.Errorf("the row is %s", row)
	}
	for _, version := range b.recorder.Versions("MediaWebhook", "site") {
		if text := fmt.Sprint(version.Object["status"]); strings.Contains(text, "very-secret") || strings.Contains(text, "whsec_") {
			t.Errorf("a status shows a secret: %s", text)
		}
	}

	must(t, b.Delete(b.ctx, hook))
	b.gone(hook)
	b.notStored(hook)
	if err := b.Get(b.ctx, client.ObjectKeyFromObject(secret), secret); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the Secret is left: %v", err)
	}
	wait.Until(t, "the account has no journal", func() bool { return b.retention(account) == "none" })
}

func TestWebhook_SecretIsRotatedByGeneration(t *testing.T) {
	t.Parallel()
	b, opener := newWebhooks(t)
	b.readyAccount("demo")
	hook := b.webhook("site", "demo")
	b.ready(hook)
	first := string(b.signingSecret("site.webhook.media").Data["secret"])
	change(b, hook, func(w *v1alpha1.MediaWebhook) { w.Spec.Secret.Generation = 2 })
	b.ready(hook)
	secret := b.signingSecret("site.webhook.media")
	second := string(secret.Data["secret"])
	until, err := time.Parse(time.RFC3339, string(secret.Data["previousUntil"]))
	if second == first || string(secret.Data["previous"]) != first || err != nil || secret.Annotations[v1alpha1.AnnotationSecretGeneration] != "2" {
		t.Fatalf("the Secret was not rotated: %v, annotations %v", err, secret.Annotations)
	}
	if target := b.signs(opener, hook, second, first); !target.Secrets[1].Until.Equal(until) || !target.Secrets[0].Until.IsZero() {
		t.Errorf("the secrets end at %s and %s, not at %s", target.Secrets[0].Until, target.Secrets[1].Until, until)
	}

	// A git revert lowers the generation: the receiver has the new secret.
	change(b, hook, func(w *v1alpha1.MediaWebhook) { w.Spec.Secret.Generation = 1 })
	b.ready(hook)
	b.signs(opener, hook, second, first)

	// The end of the overlap is a time in the Secret.
	change(b, secret, func(s *corev1.Secret) {
		s.Data["previousUntil"] = []byte(time.Now().Add(-time.Minute).UTC().Format(time.RFC3339))
	})
	b.signs(opener, hook, second)
	if after := b.signingSecret(secret.Name); len(after.Data) != 1 || string(after.Data["secret"]) != second {
		t.Errorf("after the overlap the Secret has %d entries", len(after.Data))
	}

	change(b, hook, func(w *v1alpha1.MediaWebhook) {
		w.Spec.Secret.Generation, w.Spec.Secret.Overlap = 3, &metav1.Duration{}
	})
	b.ready(hook)
	if after := b.signingSecret(secret.Name); len(after.Data) != 1 || string(after.Data["secret"]) == second {
		t.Errorf("without an overlap the Secret has %d entries", len(after.Data))
	}
}

func TestWebhook_PreviousSecretEndsWithTheOverlap(t *testing.T) {
	t.Parallel()
	b, opener := newWebhooks(t)
	b.readyAccount("demo")
	hook := b.webhook("site", "demo", func(w *v1alpha1.MediaWebhook) { w.Spec.Secret.Overlap = &metav1.Duration{Duration: 2 * time.Second} })
	b.ready(hook)
	change(b, hook, func(w *v1alpha1.MediaWebhook) { w.Spec.Secret.Generation = 2 })
	b.ready(hook)
	b.signs(opener, hook, string(b.signingSecret("site.webhook.media").Data["secret"])) // nobody asks for the reconcile
}

func TestWebhook_SecretThatIsLostIsMadeAgain(t *testing.T) {
	t.Parallel()
	b, opener := newWebhooks(t)
	b.readyAccount("demo")
	hook := b.webhook("site", "demo")
	b.ready(hook)
	secret := b.signingSecret("site.webhook.media")
	first := string(secret.Data["secret"])
	remade := func() (text string) {
		t.Helper()
		wait.Until(t, "there is another secret", func() bool {
			again := &corev1.Secret{}
			err := b.Get(b.ctx, client.ObjectKeyFromObject(secret), again)
			must(t, client.IgnoreNotFound(err))
			text = string(again.Data["secret"])
			return err == nil && text != "" && text != first && text != "whsec_short"
		})
		b.signs(opener, hook, text)
		return text
	}
	must(t, b.Delete(b.ctx, secret))
	first = remade()
	change(b, secret, func(s *corev1.Secret) { s.Data = nil })
	first = remade()
	change(b, secret, func(s *corev1.Secret) { s.Data["secret"] = []byte("whsec_short") })
	remade()
	if after := b.signingSecret(secret.Name); metav1.GetControllerOf(after) == nil {
		t.Error("the Secret has no owner")
	}
}

func TestWebhook_SecretOfOthersIsNotOverwritten(t *testing.T) {
	t.Parallel()
	b, _ := newWebhooks(t)
	b.readyAccount("demo")
	foreign := b.opaque("site.webhook.media", map[string]string{"secret": "mine"})
	hook := b.webhook("site", "demo")
	b.says(hook, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonConflict, "Secret site.webhook.media does not belong to this MediaWebhook")
	must(t, b.Delete(b.ctx, hook))
	b.gone(hook)
	if after := b.signingSecret("site.webhook.media"); after.UID != foreign.UID || string(after.Data["secret"]) != "mine" || after.ResourceVersion != foreign.ResourceVersion {
		t.Error("the Secret of another was changed")
	}
}

func TestWebhook_SignsWithTheSecretOfTheTenant(t *testing.T) {
	t.Parallel()
	b, opener := newWebhooks(t, func(o *options) { o.config.UsageInterval = time.Second })
	b.readyAccount("demo")
	hook := b.webhook("site", "demo", func(w *v1alpha1.MediaWebhook) {
		w.Spec.Secret.SecretRef = &v1alpha1.WebhookSecretReference{Name: "mine"}
	})
	b.says(hook, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonSecretNotFound, "Secret mine not found")
	secret := b.opaque("mine", map[string]string{"secret": secretOf(1, 24)})
	b.ready(hook)
	b.signs(opener, hook, secretOf(1, 24))
	if hook.Status.SecretName != "mine" {
		t.Errorf("the status has the Secret %q", hook.Status.SecretName)
	}
	if err := b.Get(b.ctx, client.ObjectKey{Namespace: b.namespace, Name: "site.webhook.media"}, &corev1.Secret{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the operator made a Secret, too: %v", err)
	}
	// Nothing watches the Secret of a tenant.
	change(b, secret, func(s *corev1.Secret) {
		s.Data["secret"], s.Data["previous"] = []byte(secretOf(2, 64)), []byte(secretOf(1, 24))
	})
	b.signs(opener, hook, secretOf(2, 64), secretOf(1, 24))
	change(b, secret, func(s *corev1.Secret) { delete(s.Data, "previous") })
	b.signs(opener, hook, secretOf(2, 64))

	for name, value := range map[string]string{
		"too short": secretOf(3, 23), "too long": secretOf(3, 65), "no prefix": "aGVsbG8gdGhlcmUgYW5kIG1vcmUgb2YgaXQhIQ==", "no base64": "whsec_hunter2hunter2hunter2hunter2?", "a line break": secretOf(3, 32) + "\n",
	} {
		change(b, secret, func(s *corev1.Secret) { s.Data["secret"] = []byte(value) })
		b.says(hook, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalid, "the entry secret of Secret mine must be whsec_ and the base64 of 24 to 64 bytes")
		if text := describe(hook.Status.Conditions); strings.Contains(text, strings.TrimSpace(value)) {
			t.Errorf("%s: the status shows the value: %s", name, text)
		}
		change(b, secret, func(s *corev1.Secret) { s.Data["secret"] = []byte(secretOf(2, 64)) })
		b.ready(hook)
	}
	change(b, secret, func(s *corev1.Secret) { s.Data["previous"] = []byte("whsec_") })
	b.says(hook, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalid, "the entry previous of Secret mine")
	if owners := b.signingSecret("mine").OwnerReferences; len(owners) != 0 {
		t.Errorf("the Secret of the tenant got owners: %v", owners)
	}
}

func TestWebhook_ReadsTheURLOfASecret(t *testing.T) {
	t.Parallel()
	b, opener := newWebhooks(t, func(o *options) { o.config.UsageInterval = time.Second })
	b.readyAccount("demo")
	secret := b.opaque("receiver", map[string]string{"url": "https://one.example.org/in?token=first"})
	hook := b.webhook("site", "demo", func(w *v1alpha1.MediaWebhook) {
		w.Spec.URL, w.Spec.URLFrom = "", &v1alpha1.WebhookURLSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: "receiver", Key: "url"}}
	})
	b.ready(hook)
	if target := b.target(opener, hook); target.URL != "https://one.example.org/in?token=first" || hook.Status.Host != "one.example.org" {
		t.Errorf("the host is %s", hook.Status.Host)
	}
	change(b, secret, func(s *corev1.Secret) { s.Data["url"] = []byte("http://two.example.org/") })
	wait.Until(t, "the new URL is stored", func() bool { return b.target(opener, hook).URL == "http://two.example.org/" })
	change(b, secret, func(s *corev1.Secret) { s.Data["url"] = []byte("https://user:hunter2@two.example.org/") })
	b.says(hook, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalid, "the entry url of Secret receiver is no URL that deliveries can be sent to: the URL must not have a user name or password")
	if text := describe(hook.Status.Conditions); strings.Contains(text, "hunter2") {
		t.Errorf("the status shows the value: %s", text)
	}
	change(b, secret, func(s *corev1.Secret) { delete(s.Data, "url") })
	b.says(hook, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonSecretNotFound, "Secret receiver has no entry url")
}

func TestWebhook_StallsForWhatASchemaCannotCheck(t *testing.T) {
	t.Parallel()
	b, _ := newWebhooks(t)
	b.readyAccount("demo")
	unknown := b.webhook("unknown", "demo", func(w *v1alpha1.MediaWebhook) { w.Spec.Types = []string{"media.eaten"} })
	b.says(unknown, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalid, "media.eaten", string(journal.MediaSealed), string(journal.KeyIssued))
	change(b, unknown, func(w *v1alpha1.MediaWebhook) { w.Spec.Types = nil })
	b.ready(unknown)
}

func TestWebhook_OfAllAccountsIsInTheNamespaceOfTheOperator(t *testing.T) {
	t.Parallel()
	b, _ := newWebhooks(t, idle)
	other := newNamespace(b)
	b.config.Namespaces = []string{b.namespace, other}
	b.run(b.config)
	account := b.readyAccount("demo")
	ofAll := func(namespace string) *v1alpha1.MediaWebhook {
		object := &v1alpha1.MediaWebhook{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "everything"}}
		object.Spec.AllAccounts, object.Spec.URL = true, "https://hooks.example.org/"
		must(t, b.Create(b.ctx, object))
		return object
	}
	elsewhere := ofAll(other)
	b.says(elsewhere, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalid, "in the namespace "+b.namespace+" of the operator only")
	b.settle()
	if got := b.retention(account); got != "none" {
		t.Errorf("a MediaWebhook of another namespace gave the account a journal of %s", got)
	}
	hook := ofAll(b.namespace)
	b.ready(hook)
	wait.Until(t, "the account has a journal", func() bool { return b.retention(account) == "96:00:00" })
	if secret := b.signingSecret("everything.webhook.media"); secret.Labels[v1alpha1.LabelAccount] != "" {
		t.Errorf("the labels are %v", secret.Labels)
	}
	must(t, b.Delete(b.ctx, hook))
	b.gone(hook)
	wait.Until(t, "the account has no journal", func() bool { return b.retention(account) == "none" })
	must(t, b.Delete(b.ctx, elsewhere))
	b.gone(elsewhere)
}

// newNamespace creates another namespace.
func newNamespace(b *harness) string {
	b.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	must(b.t, b.Create(b.ctx, namespace))
	return namespace.Name
}

func TestWebhook_SchemaRejectsWithAMessage(t *testing.T) {
	t.Parallel()
	b := newHarness(t, idle)
	for want, spec := range map[string]func(*v1alpha1.MediaWebhookSpec){
		"exactly one of accountRef and allAccounts: true is required": func(s *v1alpha1.MediaWebhookSpec) { s.AllAccounts = true },
		"exactly one of accountRef and allAccounts":                   func(s *v1alpha1.MediaWebhookSpec) { s.AccountRef = nil },
		"exactly one of url and urlFrom is required":                  func(s *v1alpha1.MediaWebhookSpec) { s.URL = "" },
		"exactly one of url and urlFrom": func(s *v1alpha1.MediaWebhookSpec) {
			s.URLFrom = &v1alpha1.WebhookURLSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: "a", Key: "b"}}
		},
		"must be a URL such as":              func(s *v1alpha1.MediaWebhookSpec) { s.URL = "ftp://example.org/" },
		"without a user":                     func(s *v1alpha1.MediaWebhookSpec) { s.URL = "https://user:password@example.org/" },
		"and a fragment":                     func(s *v1alpha1.MediaWebhookSpec) { s.URL = "https://example.org/#a" },
		"2048":                               func(s *v1alpha1.MediaWebhookSpec) { s.URL = "https://example.org/" + strings.Repeat("a", 2048) },
		"spec.types[0]":                      func(s *v1alpha1.MediaWebhookSpec) { s.Types = []string{"Media Sealed"} },
		"spec.types":                         func(s *v1alpha1.MediaWebhookSpec) { s.Types = make([]string, 33) },
		"spec.format":                        func(s *v1alpha1.MediaWebhookSpec) { s.Format = "xml" },
		"spec.secret.generation":             func(s *v1alpha1.MediaWebhookSpec) { s.Secret.Generation = -1 },
		"must be a duration from 0s to 168h": func(s *v1alpha1.MediaWebhookSpec) { s.Secret.Overlap = &metav1.Duration{Duration: 169 * time.Hour} },
	} {
		object := &v1alpha1.MediaWebhook{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "site"}}
		object.Spec.AccountRef, object.Spec.URL = &v1alpha1.WebhookAccountReference{Name: "demo"}, "https://example.org/in"
		spec(&object.Spec)
		if err := b.Create(b.ctx, object); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	dotted := &v1alpha1.MediaWebhook{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "a.b"}, Spec: v1alpha1.MediaWebhookSpec{AllAccounts: true, URL: "https://example.org"}}
	if err := b.Create(b.ctx, dotted); err == nil || !strings.Contains(err.Error(), "metadata.name must be a DNS label") {
		t.Errorf("a name with a dot: %v", err)
	}
	hook := b.webhook("site", "demo")
	hook.Spec.AccountRef.Name = "other"
	if err := b.Update(b.ctx, hook); err == nil || !strings.Contains(err.Error(), "create another MediaWebhook for the other account") {
		t.Errorf("another account: %v", err)
	}
	hook.Spec.AccountRef, hook.Spec.AllAccounts = nil, true
	if err := b.Update(b.ctx, hook); err == nil || !strings.Contains(err.Error(), "cannot be exchanged") {
		t.Errorf("all accounts: %v", err)
	}
}

func TestWebhook_OldestOfTheLimitAreInEffect(t *testing.T) {
	t.Parallel()
	b, _ := newWebhooks(t, func(o *options) { o.config.WebhooksPerAccount = 2 })
	b.readyAccount("demo")
	b.readyAccount("another")
	// Times of creation have seconds; within one the name decides.
	first, second, third := b.webhook("a", "demo"), b.webhook("b", "demo"), b.webhook("c", "demo")
	other := b.webhook("d", "another")
	for _, hook := range []*v1alpha1.MediaWebhook{first, second, other} {
		b.ready(hook)
	}
	b.says(third, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonLimitExceeded, "2 older MediaWebhooks", "SERVICE_WEBHOOKS_PER_ACCOUNT")
	b.notStored(third)
	must(t, b.Delete(b.ctx, first))
	b.gone(first)
	b.ready(third)
}

func TestWebhook_AboveALoweredLimitIsRemoved(t *testing.T) {
	t.Parallel()
	b, _ := newWebhooks(t, idle)
	stop := b.run(b.config)
	b.readyAccount("demo")
	first, second := b.webhook("a", "demo"), b.webhook("b", "demo")
	b.ready(first)
	b.ready(second)
	stop()
	b.config.WebhooksPerAccount = 1
	b.run(b.config)
	b.shows(second, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonLimitExceeded)
	b.notStored(second)
	if _, ok := b.storedWebhook(first); !ok {
		t.Error("the oldest one is removed, too")
	}
}

func TestWebhook_FollowsTheAccount(t *testing.T) {
	t.Parallel()
	b, _ := newWebhooks(t)
	hook := b.webhook("site", "demo")
	b.says(hook, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonAccountNotReady, "MediaAccount demo not found")
	account := b.readyAccount("demo")
	b.ready(hook)
	must(t, b.Delete(b.ctx, account))
	b.gone(account)
	b.shows(hook, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAccountNotReady)
	b.notStored(hook)
	if hook.Status.Host != "" || hook.Status.Pending != nil {
		t.Errorf("the status shows a webhook: %+v", hook.Status)
	}
}

// A spec that cannot be used keeps what was stored in effect, but not beyond the account.
func TestWebhook_FollowsTheAccountWhileItIsStalled(t *testing.T) {
	t.Parallel()
	b, _ := newWebhooks(t)
	account := b.readyAccount("demo")
	hook := b.webhook("site", "demo")
	b.ready(hook)
	change(b, hook, func(w *v1alpha1.MediaWebhook) { w.Spec.Types = []string{"media.eaten"} })
	b.shows(hook, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalid)
	must(t, b.Delete(b.ctx, account))
	b.gone(account)
	b.shows(hook, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAccountNotReady)
	b.notStored(hook)
}

func TestWebhook_FollowsAnAccountThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	b, _ := newWebhooks(t)
	account := b.readyAccount("demo", func(a *v1alpha1.MediaAccount) { a.Spec.DeletionPolicy = v1alpha1.DeletionDelete })
	hook := b.webhook("site", "demo")
	b.ready(hook)
	before := account.Status.AccountID
	must(t, b.Delete(b.ctx, account))
	b.gone(account)
	b.shows(hook, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAccountNotReady)
	again := b.readyAccount("demo")
	b.ready(hook)
	if id := queried[string](b, `SELECT account_id::text FROM webhook WHERE object_uid = $1`, string(hook.UID)); id != again.Status.AccountID || id == before {
		t.Errorf("the webhook is of the account %s, not of %s", id, again.Status.AccountID)
	}
}

func TestWebhook_SwitchesTheJournalOnAndOff(t *testing.T) {
	t.Parallel()
	b, _ := newWebhooks(t)
	account := b.readyAccount("demo")
	if got := b.retention(account); got != "none" {
		t.Fatalf("the account has a journal of %s already", got)
	}
	first, second := b.webhook("a", "demo"), b.webhook("b", "demo")
	b.ready(first)
	b.ready(second)
	must(t, b.Delete(b.ctx, first))
	b.gone(first)
	b.settle()
	if got := b.retention(account); got != "96:00:00" {
		t.Errorf("with one left the retention is %s", got)
	}
	change(b, account, func(a *v1alpha1.MediaAccount) {
		a.Spec.Journal = &v1alpha1.JournalSpec{Retention: &metav1.Duration{Duration: 240 * time.Hour}}
	})
	b.ready(account)
	if got := b.retention(account); got != "240:00:00" {
		t.Errorf("the retention of the spec is %s", got)
	}
	must(t, b.Delete(b.ctx, second))
	b.gone(second)
	b.settle()
	if got := b.retention(account); got != "240:00:00" {
		t.Errorf("without a MediaWebhook the retention of the spec is %s", got)
	}
	change(b, account, func(a *v1alpha1.MediaAccount) { a.Spec.Journal = nil })
	wait.Until(t, "the account has no journal", func() bool { return b.retention(account) == "none" })

	// One that is being deleted, and that others keep, is none.
	held := b.webhook("c", "demo", func(w *v1alpha1.MediaWebhook) { w.Finalizers = []string{"example.org/held"} })
	b.ready(held)
	must(t, b.Delete(b.ctx, held))
	wait.Until(t, "the account has no journal", func() bool { return b.retention(account) == "none" })
	b.says(held, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonDeleting, "example.org/held")
	change(b, held, func(w *v1alpha1.MediaWebhook) { w.Finalizers = nil })
	b.gone(held)
}

func TestWebhook_WaitsForARuntime(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet)
	b.readyAccount("demo")
	hook := b.webhook("site", "demo")
	b.shows(hook, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonWaitingForRuntime)
	b.publishWebhookKey()
	b.ready(hook)
}

func TestWebhook_ConvergedCausesNoRequests(t *testing.T) {
	t.Parallel()
	// The comparison of all statuses happens often, and finds nothing.
	b, _ := newWebhooks(t, func(o *options) { o.config.UsageInterval = time.Second })
	b.readyAccount("demo")
	hook := b.webhook("site", "demo")
	b.ready(hook)
	b.settle()
	b.reread(hook)
	before, version := b.requests.snapshot(), hook.ResourceVersion
	b.settle()
	b.reread(hook)
	if after := b.requests.snapshot(); !maps.Equal(before, after) || hook.ResourceVersion != version {
		t.Errorf("requests went from\n%v to\n%v", before, after)
	}
}

func (b *harness) reread(object client.Object) {
	b.t.Helper()
	must(b.t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
}

// progress changes what the runtimes have recorded of a webhook.
func (b *harness) progress(object *v1alpha1.MediaWebhook, set string) {
	b.t.Helper()
	b.exec(`UPDATE webhook_progress SET `+set+` WHERE webhook_id = (SELECT id FROM webhook WHERE object_uid = $1)`, string(object.UID))
}

func TestWebhook_ShowsWhatTheRuntimesRecord(t *testing.T) {
	t.Parallel()
	b, _ := newWebhooks(t, func(o *options) { o.config.UsageInterval = time.Second })
	b.readyAccount("demo")
	hook := b.webhook("site", "demo")
	b.ready(hook)
	b.progress(hook, `failing_since = now(), last_attempt_at = now(), last_status = 503`)
	b.says(hook, v1alpha1.ConditionDelivering, metav1.ConditionFalse, v1alpha1.ReasonFailing, "the receiver answered 503")
	if hook.Status.LastStatus != 503 || hook.Status.FailingSince == nil || hook.Status.LastAttempt == nil {
		t.Errorf("the status is %+v", hook.Status)
	}
	b.ready(hook) // the receiver is another system
	wait.Until(t, "there is an event", func() bool { return len(b.eventsOf(v1alpha1.ReasonFailing)) == 1 })
	b.progress(hook, `failing_since = NULL, last_success_at = now(), last_status = 200`)
	b.says(hook, v1alpha1.ConditionDelivering, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "accepts")
	b.progress(hook, `missed_until = now() + interval '1 second'`)
	b.says(hook, v1alpha1.ConditionDelivering, metav1.ConditionFalse, v1alpha1.ReasonMissed, "the journal did not have them")
	change(b, hook, func(w *v1alpha1.MediaWebhook) { w.Spec.Suspended = true })
	b.shows(hook, v1alpha1.ConditionDelivering, metav1.ConditionFalse, v1alpha1.ReasonSuspended)
	b.ready(hook)
	b.progress(hook, fmt.Sprintf(`ended_generation = %d`, hook.Generation))
	b.says(hook, v1alpha1.ConditionDelivering, metav1.ConditionFalse, v1alpha1.ReasonEnded, "410")
	b.ready(hook)
	change(b, hook, func(w *v1alpha1.MediaWebhook) { w.Spec.Suspended, w.Spec.URL = false, "https://new.example.org/" })
	wait.Until(t, "another generation is sent again", func() bool { b.reread(hook); return !hook.Status.Ended })

	// A webhook that the database lost is stored again.
	must(t, b.database.Webhooks.RemoveWebhook(b.ctx, string(hook.UID)))
	wait.Until(t, "it is stored again", func() bool { _, ok := b.storedWebhook(hook); return ok })
}

// annotate sets or removes annotations.
func (b *harness) request(object client.Object, entries ...string) {
	b.t.Helper()
	change(b, object, func(o client.Object) {
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		for i := 0; i < len(entries); i += 2 {
			if annotations[entries[i]] = entries[i+1]; entries[i+1] == "" {
				delete(annotations, entries[i])
			}
		}
		o.SetAnnotations(annotations)
	})
}

func TestWebhook_PassesTheRequestsOfAnAdmin(t *testing.T) {
	t.Parallel()
	b, _ := newWebhooks(t)
	b.readyAccount("demo")
	hook := b.webhook("site", "demo")
	b.ready(hook)
	asked := func(want string) {
		t.Helper()
		wait.UntilNone(t, func() string {
			got := queried[string](b, `SELECT concat_ws(' ', test, replay, replay_since AT TIME ZONE 'UTC', replay_events::text) FROM webhook WHERE object_uid = $1`, string(hook.UID))
			if got != want {
				return fmt.Sprintf("asked for %q, want %q", got, want)
			}
			return ""
		})
	}
	b.request(hook, v1alpha1.AnnotationSendTestEvent, "one", v1alpha1.AnnotationReplay, "two", v1alpha1.AnnotationReplaySince, "2026-01-02T03:04:05Z")
	asked("one two 2026-01-02 03:04:05 {}")
	b.progress(hook, `tested = 'one', replayed = 'two', replay_error = 'the journal begins later'`)
	wait.Until(t, "the status shows the requests", func() bool { // nothing compares the statuses: the requests wait
		b.reread(hook)
		return hook.Status.Tested == "one" && hook.Status.Replayed == "two" && hook.Status.ReplayError == "the journal begins later"
	})
	b.request(hook, v1alpha1.AnnotationReplay, "three", v1alpha1.AnnotationReplaySince, "", v1alpha1.AnnotationReplayEvents, "1-4711,1-4712")
	asked("one three {1-4711,1-4712}")

	b.request(hook, v1alpha1.AnnotationReplay, "four", v1alpha1.AnnotationReplayEvents, "1-4711,all")
	wait.Until(t, "the status says what is wrong", func() bool {
		b.reread(hook)
		return strings.Contains(hook.Status.RequestError, "mediastack.dev/replay-events must be ids")
	})
	wait.Until(t, "there is an event", func() bool { return len(b.eventsOf("RequestInvalid")) == 1 })
	b.ready(hook)
	if got := queried[string](b, `SELECT concat(test, replay) FROM webhook WHERE object_uid = $1`, string(hook.UID)); strings.Contains(got, "four") {
		t.Errorf("a malformed request is stored: %s", got)
	}
	b.request(hook, v1alpha1.AnnotationReplay, "", v1alpha1.AnnotationReplayEvents, "")
	wait.Until(t, "nothing is wrong", func() bool { b.reread(hook); return hook.Status.RequestError == "" })
}

func TestWebhook_ShowsTheLogWhileItIsAskedFor(t *testing.T) {
	t.Parallel()
	b, _ := newWebhooks(t)
	b.readyAccount("demo")
	hook := b.webhook("site", "demo")
	b.ready(hook)
	id := queried[[16]byte](b, `SELECT id FROM webhook WHERE object_uid = $1`, string(hook.UID))
	at := time.Now().Add(-time.Minute).UTC().Truncate(time.Second)
	for i := range webhook.MaxAttemptsLogged + 5 {
		_, err := b.database.Webhooks.RecordAttempt(b.ctx, id, webhook.Attempt{At: at.Add(time.Duration(i) * time.Second / 10), EventID: fmt.Sprintf("1-%d", i), Type: journal.MediaSealed, Number: 1, Error: "no answer: " + strings.Repeat("é", 400), Duration: 1500 * time.Millisecond}, webhook.Outcome{}, time.Minute)
		must(t, err)
	}
	b.request(hook, v1alpha1.AnnotationShowLog, "now")
	wait.Until(t, "the status has the log", func() bool { b.reread(hook); return hook.Status.Log != nil })
	log := hook.Status.Log
	if log.Request != "now" || len(log.Attempts) != webhook.MaxAttemptsLogged || log.Attempts[0].Event != fmt.Sprintf("1-%d", webhook.MaxAttemptsLogged+4) {
		t.Fatalf("the log of %q has %d attempts, the first one of %v", log.Request, len(log.Attempts), log.Attempts[:1])
	}
	if first := log.Attempts[0]; first.Type != "media.sealed" || first.Number != 1 || first.DurationMilliseconds != 1500 || !strings.HasPrefix(first.Error, "no answer") {
		t.Errorf("the attempt is %+v", first)
	}
	b.request(hook, v1alpha1.AnnotationShowLog, "")
	wait.Until(t, "the log is removed", func() bool { b.reread(hook); return hook.Status.Log == nil })
}

// The finalizer removes a webhook, but it can be removed by hand.
func TestWebhook_WithoutAnObjectIsRemoved(t *testing.T) {
	t.Parallel()
	b, _ := newWebhooks(t, func(o *options) { o.config.UsageInterval = time.Second })
	b.readyAccount("demo")
	kept := b.webhook("kept", "demo")
	b.ready(kept)
	lost := &v1alpha1.MediaWebhook{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "lost", UID: "5f6f8bd7-0000-4000-8000-000000000000"}}
	_, err := b.database.Webhooks.PutWebhook(b.ctx, webhook.Webhook{Namespace: b.namespace, Name: lost.Name, UID: string(lost.UID), Generation: 1, Format: webhook.Standard,
		Target: webhook.Target{URL: "https://example.org", Secrets: []webhook.Secret{{Key: make([]byte, 32)}}}})
	must(t, err)
	b.notStored(lost)
	if _, ok := b.storedWebhook(kept); !ok {
		t.Error("that of an object is removed, too")
	}
}
