package operator_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/objectstatus"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/objectstore"
)

// transitionsPage is the page that shows the table, from the root of the repository.
const transitionsPage = "docs/reference/status.md"

// transition is a row of the table: an object as it was recorded.
type transition struct {
	story, row int // its place
	name       string
	object     *unstructured.Unstructured
}

// transitions collects the rows.
type transitions struct {
	mu   sync.Mutex
	rows []transition
}

// story brings objects of one namespace into states.
type story struct {
	*harness
	table *transitions
	index int
	next  int
}

// stories are in the order of the table.
var stories = []struct {
	name string
	tell func(t *testing.T, table *transitions, index int)
}{
	{"a life", tellLife},
	{"PostgreSQL is away", tellDatabaseAway},
	{"S3 is away", tellStoreAway},
	{"S3 denies", tellStoreDenies},
	{"conflicts", tellConflicts},
	{"lost media", tellLostMedia},
	{"no runtime", tellNoRuntime},
	{"deletion", tellDeletion},
	{"retained accounts", tellRetained},
	{"settings", tellSettings},
	{"webhooks", tellWebhooks},
}

// The page tells users and their tools what to expect. It is what the operator does: every row is an
// object that a real API server had.
func TestTransitions_AreAsDocumented(t *testing.T) {
	t.Parallel()
	table := &transitions{}
	t.Run("stories", func(t *testing.T) {
		for index, story := range stories {
			t.Run(story.name, func(t *testing.T) {
				t.Parallel()
				story.tell(t, table, index)
			})
		}
	})
	if t.Failed() {
		return
	}
	path := filepath.Join(testenv.RepoRoot(t), transitionsPage)
	page, err := os.ReadFile(path)
	must(t, err)
	const begin, end = "<!-- transitions: begin -->\n", "<!-- transitions: end -->\n"
	before, rest, found := strings.Cut(string(page), begin)
	documented, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table", path)
	}
	actual := table.markdown(t)
	if len(table.rows) < 25 {
		t.Errorf("the table has %d rows, want 25 or more", len(table.rows))
	}
	table.hasEveryReason(t, actual)
	if documented == actual {
		return
	}
	fresh := filepath.Join(t.ArtifactDir(), "status.md")
	must(t, os.WriteFile(fresh, []byte(before+begin+actual+end+after), 0o600))
	if os.Getenv("MEDIASTACK_UPDATE_DOCS") != "" {
		must(t, os.WriteFile(path, []byte(before+begin+actual+end+after), 0o600))
	}
	t.Errorf("%s differs from what the operator does; MEDIASTACK_UPDATE_DOCS=1 writes it. It should be:\n%s", path, actual)
}

// untold are the reasons without a row, and why. Every other one has a row: two once had none.
var untold = map[string]string{
	v1alpha1.ReasonProgressing:            "it is shown for moments between steps",
	v1alpha1.ReasonKubernetesUnavailable:  "the API server that is away keeps the status of before",
	v1alpha1.ReasonInternalError:          "a defect of the operator, which no story has",
	v1alpha1.ReasonDatabaseCredentials:    "as any other remedy of a store; TestStatus_WrongDatabasePasswordStallsAndHeals has it",
	v1alpha1.ReasonDatabaseMissing:        "as any other remedy of a store; it needs a PostgreSQL server of its own",
	v1alpha1.ReasonDatabaseSchema:         "as any other remedy of a store; it needs a schema of another version",
	v1alpha1.ReasonDatabaseFull:           "as any other remedy of a store; it needs a disk that is full",
	v1alpha1.ReasonObjectStoreUnsupported: "as any other remedy of a store; it needs a store without conditional puts",
	v1alpha1.ReasonDeleting:               "the time between two rows of the deletion",
	v1alpha1.ReasonWaitingForJournal:      "the moment until the account is reconciled",
	v1alpha1.ReasonPurging:                "the time between two rows of the retained accounts",
}

// hasEveryReason fails for a reason of the code that neither a row of the table nor untold has.
func (table *transitions) hasEveryReason(t *testing.T, actual string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "api/v1alpha1/conditions.go"))
	must(t, err)
	found := regexp.MustCompile(`(?m)^\tReason\w+\s+= "(\w+)"$`).FindAllSubmatch(text, -1)
	if len(found) < 25 {
		t.Fatalf("only %d reasons were found", len(found))
	}
	for _, match := range found {
		reason := string(match[1])
		_, excused := untold[reason]
		switch shown := strings.Contains(actual, "(`"+reason+"`)"); {
		case !shown && !excused:
			t.Errorf("no row of the table has the reason %s: add one to a story, or say in untold why there is none", reason)
		case shown && excused:
			t.Errorf("a row of the table has the reason %s: remove it from untold", reason)
		}
	}
}

// markdown renders the table.
func (table *transitions) markdown(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "config/argocd/health.lua"))
	must(t, err)
	slices.SortFunc(table.rows, func(a, b transition) int { return (a.story-b.story)*1000 + a.row - b.row })
	var text strings.Builder
	text.WriteString("| kind | state | conditions that are True | kstatus | `kubectl wait` | Argo CD |\n|---|---|---|---|---|---|\n")
	for _, row := range table.rows {
		object, err := objectstatus.Parse(row.object)
		must(t, err)
		computed, err := objectstatus.Kstatus(row.object)
		must(t, err)
		health, err := objectstatus.ArgoCD(string(script), row.object)
		must(t, err)
		if health.Message == "" {
			t.Errorf("%s: the health has no message", row.name)
		}
		if want := healthOf(string(computed), object); health.Status != want {
			t.Errorf("%s: Argo CD says %s, kstatus %s", row.name, health.Status, computed)
		}
		waits := "returns"
		if object.KubectlWaits() {
			waits = "waits"
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s |\n", row.object.GetKind(), row.name, trueConditions(object), computed, waits, health.Status)
	}
	return text.String()
}

// healthOf returns the health that means what kstatus says.
func healthOf(computed string, object *objectstatus.Object) string {
	ready := object.Condition(v1alpha1.ConditionReady)
	switch {
	case computed == "Current" && ready != nil && ready.Reason == v1alpha1.ReasonSuspended:
		return "Suspended"
	case computed == "Current":
		return "Healthy"
	case computed == "Failed", computed == "Terminating" && object.Is(v1alpha1.ConditionStalled):
		return "Degraded"
	}
	return "Progressing"
}

// trueConditions names which of Ready, Reconciling and Stalled are True, and what differs of the
// others.
func trueConditions(object *objectstatus.Object) string {
	var parts []string
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		if condition := object.Condition(kind); condition != nil && condition.Status == metav1.ConditionTrue {
			parts = append(parts, fmt.Sprintf("%s (`%s`)", kind, condition.Reason))
		}
	}
	if !object.Observed() && len(parts) > 0 && object.Is(v1alpha1.ConditionReady) {
		parts = append(parts, "of the generation before")
	}
	for _, kind := range []string{v1alpha1.ConditionStorageAvailable, v1alpha1.ConditionKeysReady, v1alpha1.ConditionDelivering} {
		condition := object.Condition(kind)
		if condition != nil && object.Is(v1alpha1.ConditionReady) && condition.Reason != v1alpha1.ReasonSucceeded {
			parts = append(parts, fmt.Sprintf("%s is %s (`%s`)", kind, condition.Status, condition.Reason))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// tell starts a story.
func tell(t *testing.T, table *transitions, index int, choose ...func(*options)) *story {
	return &story{harness: newHarness(t, choose...), table: table, index: index}
}

// row waits until a version of an object was recorded that has a state, and adds it to the table.
func (s *story) row(name, kind, object string, reached ...func(*objectstatus.Object) bool) {
	s.t.Helper()
	wait.UntilNone(s.t, func() string {
		versions := s.recorder.Versions(kind, object)
		for _, version := range slices.Backward(versions) {
			parsed, err := objectstatus.Parse(version)
			must(s.t, err)
			if slices.ContainsFunc(reached, func(f func(*objectstatus.Object) bool) bool { return !f(parsed) }) {
				continue
			}
			s.table.mu.Lock()
			defer s.table.mu.Unlock()
			s.next++
			s.table.rows = append(s.table.rows, transition{story: s.index, row: s.next, name: name, object: version})
			return ""
		}
		last := ""
		if len(versions) > 0 {
			parsed, err := objectstatus.Parse(versions[len(versions)-1])
			must(s.t, err)
			last = describe(parsed.Status.Conditions)
		}
		return fmt.Sprintf("%s: none of %d versions of %s %s is so; the last one is\n\t%s", name, len(versions), kind, object, last)
	})
}

// is returns whether a condition has a status and a reason.
func is(kind string, status metav1.ConditionStatus, reason string) func(*objectstatus.Object) bool {
	return func(o *objectstatus.Object) bool {
		condition := o.Condition(kind)
		return condition != nil && condition.Status == status && condition.Reason == reason
	}
}

func readyFalse(reason string) func(*objectstatus.Object) bool {
	return is(v1alpha1.ConditionReady, metav1.ConditionFalse, reason)
}

func at(generation int64) func(*objectstatus.Object) bool {
	return func(o *objectstatus.Object) bool { return o.Generation == generation && o.Observed() }
}

func notObserved(o *objectstatus.Object) bool {
	return !o.Observed() && o.Status.ObservedGeneration > 0
}

func terminating(o *objectstatus.Object) bool { return o.DeletionTimestamp != nil }

const (
	accountKind  = "MediaAccount"
	settingsKind = "MediaSettings"
	retainedKind = "RetainedMediaAccount"
	webhookKind  = "MediaWebhook"
)

func tellLife(t *testing.T, table *transitions, index int) {
	s := tell(t, table, index)
	object := s.account("demo", func(a *v1alpha1.MediaAccount) { a.Spec.Storage.MaxStorage = quantity("2000Mi") })
	s.row("created", accountKind, "demo", func(o *objectstatus.Object) bool { return len(o.Status.Conditions) == 0 })
	s.ready(object)
	s.row("ready", accountKind, "demo", at(1), is(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded))
	change(s.harness, object, func(a *v1alpha1.MediaAccount) { a.Spec.Suspended = true })
	s.row("spec changed, before the operator has handled it", accountKind, "demo", notObserved)
	s.row("suspended", accountKind, "demo", at(2), is(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSuspended))
	change(s.harness, object, func(a *v1alpha1.MediaAccount) { a.Spec.Suspended = false })
	s.row("resumed", accountKind, "demo", at(3), is(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded))
	s.exec("UPDATE account_usage SET bytes = 900 * 1048576::bigint")
	change(s.harness, object, func(a *v1alpha1.MediaAccount) { a.Spec.Storage.MaxStorage = quantity("1000Mi") })
	s.row("storage nearly full", accountKind, "demo", at(4), is(v1alpha1.ConditionStorageAvailable, metav1.ConditionTrue, v1alpha1.ReasonStorageNearFull))
	change(s.harness, object, func(a *v1alpha1.MediaAccount) { a.Spec.Storage.MaxStorage = quantity("900Mi") })
	s.row("storage full", accountKind, "demo", at(5), is(v1alpha1.ConditionStorageAvailable, metav1.ConditionFalse, v1alpha1.ReasonStorageFull))
	change(s.harness, object, func(a *v1alpha1.MediaAccount) {
		a.Spec.Storage.MaxStorage, a.Spec.APIKeys.Generation = quantity("2000Mi"), 3
	})
	s.ready(object)
	change(s.harness, object, func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Generation = 2 })
	s.row("generation of the keys lowered", accountKind, "demo", at(7), is(v1alpha1.ConditionKeysReady, metav1.ConditionTrue, v1alpha1.ReasonGenerationLowered))
}

func tellDatabaseAway(t *testing.T, table *transitions, index int) {
	server := testenv.PostgresServer(t)
	s := tell(t, table, index, func(o *options) {
		o.databaseURL = func(t testing.TB) string { return testenv.Database(t, server) }
	})
	object, pins := s.account("demo"), s.settings("site", "demo")
	s.ready(object)
	s.ready(pins)
	server.Stop()
	s.row("PostgreSQL away, after the grace", accountKind, "demo", readyFalse(v1alpha1.ReasonDatabaseUnavailable))
	s.row("PostgreSQL away, after the grace", settingsKind, "site", readyFalse(v1alpha1.ReasonDatabaseUnavailable))
	must(t, s.Delete(s.ctx, object))
	s.row("deleting, PostgreSQL away", accountKind, "demo", terminating, readyFalse(v1alpha1.ReasonDatabaseUnavailable))
	server.Start()
	s.gone(object)
}

func tellStoreAway(t *testing.T, table *transitions, index int) {
	server := testenv.S3Server(t)
	s := tell(t, table, index, func(o *options) {
		o.s3 = func(testing.TB) testenv.S3Access { return server.Server.Access }
		o.config.OutageGrace = 3 * time.Second
	})
	object := s.account("demo")
	s.ready(object)
	checks := s.buckets.of(object.Status.Bucket)
	server.Stop()
	wait.UntilNone(s.t, func() string {
		if s.buckets.of(object.Status.Bucket) == checks {
			return "the bucket was not checked"
		}
		return ""
	})
	s.row("S3 away, within the grace", accountKind, "demo", is(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded))
	s.row("S3 away, after the grace", accountKind, "demo", readyFalse(v1alpha1.ReasonObjectStoreUnavailable))
	s.account("fresh")
	s.row("created while S3 is away", accountKind, "fresh", readyFalse(v1alpha1.ReasonObjectStoreUnavailable))
	server.Start()
	s.ready(object)
	s.row("S3 back", accountKind, "demo", is(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded))
}

// denying is an S3 store that answers some requests with an error code.
type denying struct {
	code    atomic.Pointer[string]
	methods atomic.Pointer[string]
}

func (d *denying) deny(code, methods string) { d.code.Store(&code); d.methods.Store(&methods) }

func (d *denying) access(t testing.TB) testenv.S3Access {
	return testenv.S3Proxy(t, testenv.S3(t), func(w http.ResponseWriter, r *http.Request) bool {
		code, methods := d.code.Load(), d.methods.Load()
		deletes := r.Method == http.MethodDelete || r.Method == http.MethodPost && r.URL.Query().Has("delete")
		if code == nil || *code == "" || *methods == "delete" && !deletes || *methods == "put" && r.Method != http.MethodPut {
			return false
		}
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>denied</Message></Error>`, *code)
		return true
	})
}

func tellStoreDenies(t *testing.T, table *transitions, index int) {
	store := &denying{}
	store.deny("QuotaExceeded", "put")
	s := tell(t, table, index, func(o *options) { o.s3 = store.access })
	object := s.account("demo")
	s.row("S3 allows no more buckets", accountKind, "demo", readyFalse(v1alpha1.ReasonObjectStoreQuota))
	store.deny("", "")
	s.ready(object)
	store.deny("InvalidAccessKeyId", "all")
	s.row("S3 rejects the key", accountKind, "demo", readyFalse(v1alpha1.ReasonObjectStoreCredentials))
	store.deny("", "")
	s.ready(object)
	store.deny("RequestTimeTooSkewed", "all")
	s.row("S3 rejects the time of requests", accountKind, "demo", readyFalse(v1alpha1.ReasonObjectStoreClock))
	store.deny("", "")
	s.ready(object)
	s.buckets.use(storeWith(t, testenv.S3(t), func(a *testenv.S3Access) { a.Region = "mars-north-1" }))
	s.row("S3 expects another region", accountKind, "demo", readyFalse(v1alpha1.ReasonObjectStoreRegion))
	s.buckets.use(s.store)
	s.ready(object)
}

func tellConflicts(t *testing.T, table *transitions, index int) {
	s := tell(t, table, index)
	bucket := "other-" + s.namespace
	s.claim(bucket, "another")
	s.account("bucket", func(a *v1alpha1.MediaAccount) { a.Spec.Storage.Bucket = &v1alpha1.BucketSpec{Name: bucket} })
	s.row("bucket of another account", accountKind, "bucket", readyFalse(v1alpha1.ReasonConflict))

	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: v1alpha1.SecretName("secret", "default")}}
	must(t, s.Create(s.ctx, foreign))
	s.account("secret")
	s.row("a Secret of the same name exists", accountKind, "secret", readyFalse(v1alpha1.ReasonConflict))

	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": resource.MustParse("1")}}}
	must(t, s.Create(s.ctx, quota))
	wait.UntilNone(s.t, func() string {
		more := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, GenerateName: "more-"}}
		if s.Create(s.ctx, more) == nil {
			must(t, s.Delete(s.ctx, more))
			return "the quota does not count yet"
		}
		return ""
	})
	s.account("quota")
	s.row("a quota denies the Secret", accountKind, "quota", readyFalse(v1alpha1.ReasonKubernetesDenied))

	s.account("origin", func(a *v1alpha1.MediaAccount) {
		a.Spec.CORS = &v1alpha1.CORSSpec{Origins: []v1alpha1.Origin{"https://*.com"}}
	})
	s.row("an origin is every site below a top-level domain", accountKind, "origin", readyFalse(v1alpha1.ReasonInvalid))
}

func tellLostMedia(t *testing.T, table *transitions, index int) {
	s := tell(t, table, index)
	object := s.account("demo")
	s.ready(object)
	s.sealItems(3)
	must(t, s.store.Remove(s.ctx, object.Status.Bucket, []string{objectstore.MarkerKey}))
	must(t, s.store.RemoveBucket(s.ctx, object.Status.Bucket))
	s.row("the bucket vanished with items", accountKind, "demo", readyFalse(v1alpha1.ReasonMediaLost))
	change(s.harness, object, func(a *v1alpha1.MediaAccount) {
		metav1.SetMetaDataAnnotation(&a.ObjectMeta, v1alpha1.AnnotationAcknowledgeMediaLoss, a.Status.AccountID)
	})
	s.ready(object)
	s.row("the loss is acknowledged", accountKind, "demo", is(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded))
}

func tellNoRuntime(t *testing.T, table *transitions, index int) {
	s := tell(t, table, index, func(o *options) { o.noRuntime = true })
	s.account("demo")
	s.row("no runtime serves", accountKind, "demo", readyFalse(v1alpha1.ReasonRuntimeUnavailable))
}

func tellDeletion(t *testing.T, table *transitions, index int) {
	store := &denying{}
	s := tell(t, table, index, func(o *options) { o.s3 = store.access })
	object := s.account("demo", deleting)
	s.ready(object)
	store.deny("AccessDenied", "delete")
	must(t, s.Delete(s.ctx, object))
	s.row("deleting, before the operator has handled it", accountKind, "demo", terminating, is(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded))
	s.row("deleting, S3 denies the removal", accountKind, "demo", terminating, is(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonDeletionBlocked))
	store.deny("", "")
	s.gone(object)
}

func tellRetained(t *testing.T, table *transitions, index int) {
	store := &denying{}
	s := tell(t, table, index, func(o *options) { o.s3 = store.access })
	object, earlier := s.account("demo"), s.account("earlier")
	s.ready(object)
	s.ready(earlier)
	s.sealItems(3)
	id, earlierID := s.accountID(object), s.accountID(earlier)
	for _, closing := range []*v1alpha1.MediaAccount{object, earlier} {
		must(t, s.Delete(s.ctx, closing))
		s.gone(closing)
	}
	s.exec("UPDATE account SET namespace_uid = 'of the namespace before' WHERE id = $1", earlierID)
	s.account("earlier")
	s.row("an account of an earlier namespace has the name", accountKind, "earlier", readyFalse(v1alpha1.ReasonRetained))

	kept := s.retained(id)
	s.row("the account is retained", retainedKind, id.String(), is(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRetained))
	store.deny("AccessDenied", "delete")
	change(s.harness, kept, func(r *v1alpha1.RetainedMediaAccount) { r.Spec.Reclaim = v1alpha1.ReclaimPurge })
	s.row("reclaim is set to Purge, before the operator has handled it", retainedKind, id.String(), notObserved)
	s.row("purging, S3 denies the removal", retainedKind, id.String(), is(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonDeletionBlocked))
	store.deny("", "")
	s.gone(kept)
}

func tellSettings(t *testing.T, table *transitions, index int) {
	s := tell(t, table, index)
	early := s.settings("early", "demo")
	s.row("its MediaAccount is missing", settingsKind, "early", readyFalse(v1alpha1.ReasonAccountNotReady))
	s.ready(s.account("demo"))
	s.ready(early)
	s.row("applied", settingsKind, "early", is(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded))
	s.settings("late", "demo")
	s.row("an older MediaSettings is active", settingsKind, "late", readyFalse(v1alpha1.ReasonConflict))
}

func tellWebhooks(t *testing.T, table *transitions, index int) {
	s := tell(t, table, index, func(o *options) { o.config.WebhooksPerAccount = 2 })
	hook := s.webhook("hook", "demo")
	s.row("its MediaAccount is missing", webhookKind, "hook", readyFalse(v1alpha1.ReasonAccountNotReady))
	s.ready(s.account("demo"))
	s.row("no runtime has started since the database is new", webhookKind, "hook", readyFalse(v1alpha1.ReasonWaitingForRuntime))
	s.publishWebhookKey()
	s.ready(hook)
	s.row("stored", webhookKind, "hook", is(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded))
	s.progress(hook, `failing_since = now(), last_attempt_at = now(), last_status = 503`)
	s.row("the receiver answers 503", webhookKind, "hook", is(v1alpha1.ConditionDelivering, metav1.ConditionFalse, v1alpha1.ReasonFailing))
	s.progress(hook, `failing_since = NULL, missed_until = now()`)
	s.row("the journal did not have events anymore", webhookKind, "hook", is(v1alpha1.ConditionDelivering, metav1.ConditionFalse, v1alpha1.ReasonMissed))
	s.progress(hook, `ended_generation = 1`)
	s.row("the receiver answered 410", webhookKind, "hook", is(v1alpha1.ConditionDelivering, metav1.ConditionFalse, v1alpha1.ReasonEnded))
	change(s.harness, hook, func(w *v1alpha1.MediaWebhook) { w.Spec.Suspended = true })
	s.row("suspended", webhookKind, "hook", at(2), is(v1alpha1.ConditionDelivering, metav1.ConditionFalse, v1alpha1.ReasonSuspended))
	s.webhook("other-secret", "demo", func(w *v1alpha1.MediaWebhook) {
		w.Spec.Secret.SecretRef = &v1alpha1.WebhookSecretReference{Name: "missing"}
	})
	s.row("the Secret of the spec is missing", webhookKind, "other-secret", readyFalse(v1alpha1.ReasonSecretNotFound))
	s.webhook("too-many", "demo")
	s.row("the account has as many older ones as it may have", webhookKind, "too-many", readyFalse(v1alpha1.ReasonLimitExceeded))
}
