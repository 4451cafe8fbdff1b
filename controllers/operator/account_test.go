package operator_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/objectstore"
)

func TestAccount_IsProvisioned(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.account("demo", func(a *v1alpha1.MediaAccount) {
		a.Spec.DisplayName = "Demo"
		a.Spec.Owners = []v1alpha1.EmailAddress{"O'Brien@example.org", "Ana@Example.org"}
		a.Spec.Apps = []v1alpha1.AppSpec{{Name: "web"}}
		a.Spec.Storage.MaxStorage = quantity("1Gi")
	})
	b.ready(object)

	found, err := b.registry.Find(b.ctx, b.namespace, "demo")
	must(t, err)
	if found.ID.String() != object.Status.AccountID || found.Bucket != object.Status.Bucket {
		t.Errorf("the status shows account %s and bucket %s, the database has %s and %s", object.Status.AccountID, object.Status.Bucket, found.ID, found.Bucket)
	}
	if found.MaxStorage != 1<<30 || found.MaxUploadSize != 1<<30 {
		t.Errorf("caps are %d and %d, want 1Gi for both: the upload size defaults to the smaller of 2Gi and the cap", found.MaxStorage, found.MaxUploadSize)
	}
	if got := strings.Join(found.Owners, " "); got != "ana@example.org o'brien@example.org" {
		t.Errorf("owners are %q", got)
	}
	owner, err := b.store.Owner(b.ctx, found.Bucket)
	must(t, err)
	identity, err := b.database.Installations.Identity(b.ctx)
	must(t, err)
	if owner != (objectstore.Owner{AccountID: found.ID.String(), Namespace: b.namespace, Name: "demo", InstallationID: identity.ID}) {
		t.Errorf("the bucket's marker is %+v", owner)
	}
	for _, app := range []string{"default", "web"} {
		secret := b.secret("demo", app)
		want := map[string]string{"baseURL": baseURL, "mcpURL": baseURL + "/mcp", "accountID": found.ID.String(), "app": app}
		for name, value := range want {
			if string(secret.Data[name]) != value {
				t.Errorf("Secret of %s: %s is %q, want %q", app, name, secret.Data[name], value)
			}
		}
		if !b.opens(secret.Data["apiKey"]) {
			t.Errorf("the key of app %s does not open the account", app)
		}
		if secret.Labels[v1alpha1.LabelAccount] != "demo" || !metav1.IsControlledBy(secret, object) {
			t.Errorf("Secret of %s is not labelled, or not controlled by its account", app)
		}
	}
	if got := *object.Status.Endpoints; got != (v1alpha1.EndpointsStatus{REST: baseURL, Resumable: baseURL + "/media/create/resumable", MCP: baseURL + "/mcp"}) {
		t.Errorf("endpoints are %+v", got)
	}
	if len(object.Status.Keys) != 2 || object.Status.Usage == nil || object.Status.Usage.Used != "0" {
		t.Errorf("keys and usage are missing from the status: %+v", object.Status)
	}
	for _, kind := range []string{v1alpha1.ConditionBucketReady, v1alpha1.ConditionAppsReady, v1alpha1.ConditionKeysReady} {
		if !meta.IsStatusConditionTrue(object.Status.Conditions, kind) {
			t.Errorf("%s is not True: %s", kind, describe(object.Status.Conditions))
		}
	}
	b.eventsHoldNoSecret(string(b.secret("demo", "default").Data["apiKey"]), "Succeeded")
}

// eventsHoldNoSecret waits for events with the reasons and reads all of them for the key.
func (b *harness) eventsHoldNoSecret(key string, reasons ...string) {
	b.t.Helper()
	var all []eventsv1.Event
	wait.UntilNone(b.t, func() string {
		all = b.events()
		seen := map[string]bool{}
		for _, event := range all {
			seen[event.Reason] = true
		}
		for _, reason := range reasons {
			if !seen[reason] {
				return "there is no event " + reason
			}
		}
		return ""
	})
	for _, event := range all {
		if strings.Contains(fmt.Sprintf("%+v", event), key) {
			b.t.Errorf("event %s holds the key", event.Reason)
		}
	}
}

// events returns the events of the test's namespace.
func (b *harness) events() []eventsv1.Event {
	b.t.Helper()
	clients, err := kubernetes.NewForConfig(b.plane.Access())
	must(b.t, err)
	list, err := clients.EventsV1().Events(b.namespace).List(b.ctx, metav1.ListOptions{})
	must(b.t, err)
	return list.Items
}

func TestBucket_DeletedIsRestored(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo")
	must(t, b.store.RemoveDrained(b.ctx, object.Status.Bucket)) // it holds its marker only
	wait.UntilNone(b.t, func() string {
		if _, err := b.store.Owner(b.ctx, object.Status.Bucket); err != nil {
			return err.Error()
		}
		return ""
	})
	b.ready(object)
	b.eventsHoldNoSecret("msk_", "BucketRestored")
}

func TestAccount_ConvergedCausesNoRequests(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.config.BucketCheckInterval, o.config.UsageInterval = time.Hour, time.Hour })
	object, pins := b.account("demo"), b.settings("site", "demo")
	b.ready(object)
	b.ready(pins)
	b.settle()
	must(t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
	before, version, claims := b.requests.snapshot(), object.ResourceVersion, b.buckets.of(object.Status.Bucket)

	// Reconciles that find nothing to do: a field of a Secret that the operator ignores is added
	// and removed.
	secret := b.secret("demo", "default")
	change(b, secret, func(s *corev1.Secret) { s.Data["more"] = []byte("mine") })
	change(b, secret, func(s *corev1.Secret) { delete(s.Data, "more") })
	b.settle()

	must(t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
	if object.ResourceVersion != version {
		t.Errorf("the account was written: version %s, then %s", version, object.ResourceVersion)
	}
	if after := b.requests.snapshot(); !maps.Equal(before, after) {
		t.Errorf("requests went from\n%v to\n%v", before, after)
	}
	if now := b.buckets.of(object.Status.Bucket); now != claims {
		t.Errorf("the bucket was checked %d more times", now-claims)
	}
}

// settle waits until the operator has sent nothing for two seconds, in which the machine did not stand still.
func (b *harness) settle() {
	b.t.Helper()
	looks, last, since := 0, b.requests.snapshot(), time.Now()
	wait.UntilNone(b.t, func() string {
		now := b.requests.snapshot()
		if looks++; !maps.Equal(now, last) {
			looks, last, since = 0, now, time.Now()
		}
		if looks < 30 || time.Since(since) < 2*time.Second {
			return "the operator keeps sending requests"
		}
		return ""
	})
}

func TestAccount_ChangedSpecReachesTheDatabase(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo", func(a *v1alpha1.MediaAccount) { a.Spec.Apps = []v1alpha1.AppSpec{{Name: "web"}} })
	webKey := b.secret("demo", "web").Data["apiKey"]
	change(b, object, func(a *v1alpha1.MediaAccount) {
		a.Spec.Storage.MaxStorage = quantity("20Gi")
		a.Spec.Suspended = true
		a.Spec.MCP = &v1alpha1.MCPSpec{ReadOnly: true, Toolsets: []v1alpha1.MCPToolset{"organize", "core"}, Tools: []v1alpha1.MCPTool{"list_media", "get_media"}}
		a.Spec.CORS = &v1alpha1.CORSSpec{Origins: []v1alpha1.Origin{"https://b.example.org", "https://*.example.com"}}
		a.Spec.Apps = nil
	})
	b.shows(object, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSuspended)
	wait.UntilNone(b.t, func() string {
		found, err := b.registry.Find(b.ctx, b.namespace, "demo")
		must(t, err)
		policy := account.ToolPolicy{ReadOnly: true, Toolsets: []string{"core", "organize"}, Tools: []string{"get_media", "list_media"}}
		if found.MaxStorage != 20<<30 || !found.Suspended || !found.ToolPolicy.Equal(policy) ||
			!slices.Equal(found.Origins, []string{"https://*.example.com", "https://b.example.org"}) {
			return fmt.Sprintf("the database has %+v", found)
		}
		secret := &corev1.Secret{}
		if err := b.Get(b.ctx, client.ObjectKey{Namespace: b.namespace, Name: v1alpha1.SecretName("demo", "web")}, secret); err == nil {
			return "the Secret of the closed app still exists"
		}
		return ""
	})
	if b.opens(webKey) {
		t.Error("the key of the closed app still works")
	}
}

func TestAccount_SearchIsWhatTheSpecSays(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo", func(a *v1alpha1.MediaAccount) {
		a.Spec.Search = &v1alpha1.SearchSpec{Metadata: []v1alpha1.MetadataKey{"title", "place"}, Language: "English"}
	})
	has := func(want account.Search) {
		b.t.Helper()
		wait.UntilNone(b.t, func() string {
			found, err := b.registry.Find(b.ctx, b.namespace, "demo")
			must(t, err)
			if !found.Search.Equal(want) {
				return fmt.Sprintf("the search of the database is %+v, want %+v", found.Search, want)
			}
			return ""
		})
	}
	has(account.Search{Keys: []string{"place", "title"}, Language: "english"})
	// An empty list searches no metadata, and a missing one all.
	change(b, object, func(a *v1alpha1.MediaAccount) {
		a.Spec.Search = &v1alpha1.SearchSpec{Metadata: []v1alpha1.MetadataKey{}}
	})
	has(account.Search{Keys: []string{}})
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.Search = &v1alpha1.SearchSpec{Language: "German"} })
	has(account.Search{Language: "german"})
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.Search = nil })
	has(account.Search{})
}

func TestAccount_GateIsWhatTheSpecSays(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo", func(a *v1alpha1.MediaAccount) { a.Spec.Gate = &v1alpha1.GateSpec{Scanner: v1alpha1.GateScannerClamd} })
	has := func(want account.Gate) {
		b.t.Helper()
		wait.UntilNone(b.t, func() string {
			found, err := b.registry.Find(b.ctx, b.namespace, "demo")
			must(t, err)
			if found.Gate != want {
				return fmt.Sprintf("the gate of the database is %+v, want %+v", found.Gate, want)
			}
			return ""
		})
	}
	has(account.Gate{Scanner: account.ScannerClamd, MaxScanBytes: 100 << 20})
	change(b, object, func(a *v1alpha1.MediaAccount) {
		a.Spec.Gate = &v1alpha1.GateSpec{Scanner: v1alpha1.GateScannerHTTP, OnUnscannable: v1alpha1.UnscannableAllow, OnUnavailable: v1alpha1.UnavailableAllow, MaxScanBytes: new(resource.MustParse("1Gi"))}
	})
	has(account.Gate{Scanner: account.ScannerHTTP, AllowUnscannable: true, AllowUnchecked: true, MaxScanBytes: 1 << 30})
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.Gate = nil })
	has(account.Gate{})
}

// What waits for an owner, and what bounds assistants, reaches the database as the spec says it, and ends with the spec.
func TestAccount_HasTheApprovalsAndCeilingsOfTheSpec(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo", func(a *v1alpha1.MediaAccount) {
		a.Spec.MCP = &v1alpha1.MCPSpec{Approval: &v1alpha1.MCPApprovalSpec{Delete: v1alpha1.DeleteApprovalBulk, Publish: v1alpha1.ChangeApprovalAlways}}
	})
	has := func(approval account.Approval, ceilings account.Ceilings) {
		b.t.Helper()
		wait.UntilNone(b.t, func() string {
			found, err := b.registry.Find(b.ctx, b.namespace, "demo")
			must(t, err)
			if policy := found.ToolPolicy; policy.Approval != approval || policy.Ceilings != ceilings {
				return fmt.Sprintf("the account has %+v and %+v", policy.Approval, policy.Ceilings)
			}
			return ""
		})
	}
	has(account.Approval{Delete: account.RuleBulk, Publish: account.RuleAlways, BulkItems: 20, BulkWindow: time.Hour}, account.Ceilings{})
	change(b, object, func(a *v1alpha1.MediaAccount) {
		a.Spec.MCP.Approval = &v1alpha1.MCPApprovalSpec{Delete: v1alpha1.DeleteApprovalBulk, Settings: v1alpha1.ChangeApprovalAlways, Bulk: &v1alpha1.MCPBulkSpec{Items: 3, Per: &metav1.Duration{Duration: time.Minute}}}
		a.Spec.MCP.Ceilings = &v1alpha1.MCPCeilingsSpec{MCPCeiling: v1alpha1.MCPCeiling{UploadBytesPerDay: new(resource.MustParse("1Gi")), FetchesPerDay: new(int64(7))},
			Total: &v1alpha1.MCPCeiling{DeletesPerHour: new(int64(9))}}
	})
	has(account.Approval{Delete: account.RuleBulk, Settings: account.RuleAlways, BulkItems: 3, BulkWindow: time.Minute},
		account.Ceilings{Each: account.Ceiling{UploadBytesPerDay: 1 << 30, FetchesPerDay: 7}, Total: account.Ceiling{DeletesPerHour: 9}})
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.MCP = nil })
	has(account.Approval{}, account.Ceilings{})
}

func TestAccount_KeepsLocationsIfTheSpecSaysSo(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo", func(a *v1alpha1.MediaAccount) {
		a.Spec.Metadata = &v1alpha1.MetadataSpec{Location: v1alpha1.LocationKeep}
	})
	has := func(want bool) {
		b.t.Helper()
		wait.UntilNone(b.t, func() string {
			found, err := b.registry.Find(b.ctx, b.namespace, "demo")
			must(t, err)
			if found.KeepLocation != want {
				return fmt.Sprintf("locations are kept: %v, want %v", found.KeepLocation, want)
			}
			return ""
		})
	}
	has(true)
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.Metadata.Location = v1alpha1.LocationDrop })
	has(false)
	if tasks := b.sql(`SELECT count(*) FROM work WHERE kind = 'locations' AND account_id = $1`, b.accountID(object)); tasks != 2 {
		t.Errorf("%d tasks remove locations", tasks)
	}
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.Metadata.Location = v1alpha1.LocationKeep })
	has(true)
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.Metadata = nil })
	has(false)
}

func TestAccount_JournalIsWhatTheSpecSays(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo", func(a *v1alpha1.MediaAccount) { a.Spec.Journal = &v1alpha1.JournalSpec{} })
	has := func(want time.Duration) {
		b.t.Helper()
		wait.UntilNone(b.t, func() string {
			found, err := b.registry.Find(b.ctx, b.namespace, "demo")
			must(t, err)
			if found.Journal != want {
				return fmt.Sprintf("the journal of the database has a retention of %s, want %s", found.Journal, want)
			}
			return ""
		})
	}
	has(168 * time.Hour)
	change(b, object, func(a *v1alpha1.MediaAccount) {
		a.Spec.Journal.Retention = &metav1.Duration{Duration: 9600 * time.Hour}
	})
	has(9600 * time.Hour)
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.Journal = nil })
	has(0)
	// A change beside it leaves it.
	change(b, object, func(a *v1alpha1.MediaAccount) {
		a.Spec.Journal = &v1alpha1.JournalSpec{Retention: &metav1.Duration{Duration: 24 * time.Hour}}
	})
	has(24 * time.Hour)
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.Suspended = true })
	b.shows(object, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSuspended)
	has(24 * time.Hour)
	if suspensions := b.sql(`SELECT count(*) FROM journal WHERE type = 'account.suspended' AND account_id = $1`, b.accountID(object)); suspensions != 1 {
		t.Errorf("the journal has %d suspensions, want 1", suspensions)
	}
}

// An origin that is every site below a top-level domain, or that no browser sends, was ignored by the runtime, and nothing
// told the tenant.
func TestAccount_OriginsThatTheRuntimeWouldIgnoreAreRejected(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	private := []v1alpha1.Origin{"https://*.corp.example", "http://*.lan", "https://*.localhost", "https://*.github.io", "https://com"}
	object := b.account("demo", func(a *v1alpha1.MediaAccount) {
		a.Spec.CORS = &v1alpha1.CORSSpec{Origins: private}
		a.Spec.Owners = []v1alpha1.EmailAddress{"ana@example.org"}
	})
	b.ready(object)
	inForce, err := b.registry.Find(b.ctx, b.namespace, "demo")
	must(t, err)
	for origin, says := range map[v1alpha1.Origin]string{
		"https://*.com":               "is every site below com: name a domain of yours, such as https://*.example.com",
		"http://*.co.uk:8080":         "is every site below co.uk: name a domain of yours, such as http://*.example.co.uk:8080",
		"https://app.example.org:443": "it leaves the port 443 of https out: write https://app.example.org",
		"http://localhost:65536":      "ports are 1 to 65535, or * for all",
		"https://*.192.0.2.1":         "has the wildcard before an IP address, which has no subdomains: name each address",
	} {
		change(b, object, func(a *v1alpha1.MediaAccount) {
			a.Spec.CORS.Origins = append(slices.Clone(private), origin)
			a.Spec.DisplayName, a.Spec.Owners, a.Spec.Suspended = "with "+string(origin), nil, true
		})
		b.shows(object, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalid)
		b.shows(object, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalid)
		wait.UntilNone(t, func() string {
			must(t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
			for _, text := range []string{"spec.cors.origins: " + string(origin) + " ", says + ". The origins of before stay in force"} {
				if got := message(object, v1alpha1.ConditionReady); !strings.Contains(got, text) {
					return fmt.Sprintf("the message does not say %q: %s", text, got)
				}
			}
			return ""
		})
		found, err := b.registry.Find(b.ctx, b.namespace, "demo")
		must(t, err)
		if !slices.Equal(found.Origins, inForce.Origins) {
			t.Errorf("with %s, the database has %v", origin, found.Origins)
		}
		if found.DisplayName != object.Spec.DisplayName || !found.Suspended || len(found.Owners) != 0 {
			t.Errorf("with %s, the rest of the spec is not in force: %+v", origin, found)
		}
	}
	change(b, object, func(a *v1alpha1.MediaAccount) {
		a.Spec.CORS.Origins = []v1alpha1.Origin{"https://*.example.com"}
		a.Spec.DisplayName, a.Spec.Suspended = "corrected", false
	})
	b.ready(object)
	if found, err := b.registry.Find(b.ctx, b.namespace, "demo"); err != nil || found.DisplayName != "corrected" || !slices.Equal(found.Origins, []string{"https://*.example.com"}) {
		t.Errorf("after the correction, the database has %+v, %v", found, err)
	}
}

// The removal of an app takes its key away for good, also if the app is added again at once: mediaaccount.md promises it.
func TestAccount_AppThatIsAddedAgainHasANewKey(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	withApp := func(a *v1alpha1.MediaAccount) { a.Spec.Apps = []v1alpha1.AppSpec{{Name: "web"}} }
	object := b.readyAccount("demo", withApp)
	former, other := slices.Clone(b.secret("demo", "web").Data["apiKey"]), slices.Clone(b.secret("demo", "default").Data["apiKey"])
	appOf := func(key []byte) uuid.UUID {
		token, _ := account.ParseKeySecret(string(key))
		principal, err := b.database.Credentials.FindPrincipal(b.ctx, token.Hash())
		must(t, err)
		return principal.App.ID
	}
	app := appOf(former)
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.Apps = nil })
	wait.Until(t, "the key of the removed app ends", func() bool { return !b.opens(former) })
	change(b, object, withApp)
	b.ready(object)
	fresh := b.secret("demo", "web").Data["apiKey"]
	if bytes.Equal(fresh, former) || !b.opens(fresh) {
		t.Errorf("the app that was added again has its former key, or one that does not work")
	}
	if b.opens(former) || !b.opens(other) {
		t.Error("the former key works again, or that of the other app does not")
	}
	if again := appOf(fresh); again != app {
		t.Errorf("it is the app %s, not %s, so it does not have its items", again, app)
	}
	// Neither does the operator hand it out, or renew it, later.
	b.settle()
	if held := b.secret("demo", "web").Data["apiKey"]; !bytes.Equal(held, fresh) || b.opens(former) {
		t.Error("the key changed again")
	}
}

func TestBucket_ForeignIsRejectedUntilAdopted(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	name := "foreign-" + b.namespace
	b.claim(name, "x")
	must(t, b.store.Put(b.ctx, name, "photo", "image/jpeg", strings.NewReader("bytes"), 5))
	object := b.account("demo", func(a *v1alpha1.MediaAccount) {
		a.Spec.Storage.Bucket = &v1alpha1.BucketSpec{Name: name}
	})
	b.shows(object, v1alpha1.ConditionBucketReady, metav1.ConditionFalse, v1alpha1.ReasonConflict)
	b.namesNoOwner(object, "account x", "installation")
	// The account has keys by then: only this field prevents uploads into that bucket.
	if found, err := b.registry.Find(b.ctx, b.namespace, "demo"); err != nil || found.BucketOwned {
		t.Errorf("the account is recorded as the owner of a foreign bucket: %v", err)
	}
	// Another account's marker is respected even with adopt; without a marker adopt takes it.
	change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.Storage.Bucket.Adopt = true })
	wait.UntilNone(b.t, func() string {
		must(t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
		if object.Status.ObservedGeneration != object.Generation {
			return "the generation has not been observed"
		}
		return lacks(object.Status.Conditions, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonConflict)
	})
	must(t, b.store.Remove(b.ctx, name, []string{objectstore.MarkerKey}))
	b.ready(object)
	if found, err := b.registry.Find(b.ctx, b.namespace, "demo"); err != nil || !found.BucketOwned {
		t.Errorf("the account is not recorded as the owner of its bucket: %v", err)
	}
	if _, err := b.store.Stat(b.ctx, name, "photo"); err != nil {
		t.Errorf("the adopted bucket lost an object: %v", err)
	}
}

// namesNoOwner checks that the conditions, which the tenant reads, do not say whose the bucket is.
func (b *harness) namesNoOwner(object *v1alpha1.MediaAccount, owner ...string) {
	b.t.Helper()
	for _, condition := range object.Status.Conditions {
		for _, text := range owner {
			if strings.Contains(condition.Message, text) {
				b.t.Errorf("%s names the owner: %s", condition.Type, condition.Message)
			}
		}
	}
}

func TestBucket_BelongsToOneAccount(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	named := func(a *v1alpha1.MediaAccount) {
		a.Spec.Storage.Bucket = &v1alpha1.BucketSpec{Name: "shared-" + b.namespace}
	}
	first := b.readyAccount("first", named)
	second := b.account("second", named)
	b.shows(second, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonConflict)
	b.namesNoOwner(second, first.Status.AccountID, "first")
	must(t, b.Get(b.ctx, client.ObjectKeyFromObject(first), first))
	if !meta.IsStatusConditionTrue(first.Status.Conditions, v1alpha1.ConditionReady) {
		t.Error("the second account made the first one not Ready")
	}
}

// The account was once looked up by the status, which every account with access to it can forge.
func TestAccount_ForgedStatusHasNoEffect(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	victim, forger := b.account("victim"), b.account("forger")
	b.ready(victim)
	b.ready(forger)
	id, bucket, key := forger.Status.AccountID, forger.Status.Bucket, b.secret("forger", "default").Data["apiKey"]
	patch := client.MergeFrom(forger.DeepCopy())
	forger.Status.AccountID, forger.Status.Bucket = victim.Status.AccountID, victim.Status.Bucket
	must(t, b.Status().Patch(b.ctx, forger, patch))
	change(b, forger, func(a *v1alpha1.MediaAccount) { a.Spec.DisplayName = "Forger" })
	b.ready(forger)
	if forger.Status.AccountID != id || forger.Status.Bucket != bucket {
		t.Errorf("the status names account %s and bucket %s, want %s and %s", forger.Status.AccountID, forger.Status.Bucket, id, bucket)
	}
	if string(b.secret("forger", "default").Data["apiKey"]) != string(key) {
		t.Error("the key was replaced")
	}
	if found, err := b.registry.Find(b.ctx, b.namespace, "victim"); err != nil || found.DisplayName != "" || found.ID.String() != victim.Status.AccountID {
		t.Errorf("the other account was changed: %+v, %v", found, err)
	}
}

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}
