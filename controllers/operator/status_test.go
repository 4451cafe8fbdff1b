package operator_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/settings"
)

// storeWith returns a client of the store with changed access.
func storeWith(t testing.TB, access testenv.S3Access, change func(*testenv.S3Access)) *objectstore.Store {
	t.Helper()
	change(&access)
	store, err := objectstore.New(objectstore.Config{Endpoint: access.Endpoint, Region: access.Region, AccessKey: access.AccessKey, SecretKey: access.SecretKey})
	must(t, err)
	return store
}

// message returns the message of an object's condition.
func message(object client.Object, kind string) string {
	if condition := meta.FindStatusCondition(conditionsOf(object), kind); condition != nil {
		return condition.Message
	}
	return ""
}

// eventsOf returns the events of the namespace with a reason.
func (b *harness) eventsOf(reason string) []eventsv1.Event {
	b.t.Helper()
	return slices.DeleteFunc(b.events(), func(event eventsv1.Event) bool { return event.Reason != reason })
}

// A wrong S3 key once showed as "can't be reached", as if waiting helped.
func TestStatus_WrongS3KeyStallsAndHeals(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.config.OutageGrace = time.Hour })
	object := b.readyAccount("demo")
	for cycle := 1; cycle <= 2; cycle++ {
		b.buckets.use(storeWith(t, testenv.S3(t), func(a *testenv.S3Access) { a.SecretKey += "x" }))
		b.shows(object, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonObjectStoreCredentials)
		b.shows(object, v1alpha1.ConditionBucketReady, metav1.ConditionFalse, v1alpha1.ReasonObjectStoreCredentials)
		if text := message(object, v1alpha1.ConditionReady); !strings.Contains(text, "SERVICE_S3_SECRET_KEY") || !strings.Contains(text, "SignatureDoesNotMatch") {
			t.Errorf("the message does not say what to correct: %s", text)
		}
		if found, err := b.registry.Find(b.ctx, b.namespace, "demo"); err != nil || !found.BucketOwned {
			t.Errorf("a wrong key of the operator closed the uploads: %v", err)
		}
		b.buckets.use(b.store)
		b.ready(object)
		// Two times the same reason are two events, not one with a count: their texts may differ.
		wait.UntilNone(b.t, func() string {
			found := b.eventsOf(v1alpha1.ReasonObjectStoreCredentials)
			if len(found) != cycle {
				return fmt.Sprintf("there are %d events, want %d", len(found), cycle)
			}
			for _, event := range found {
				if event.Series != nil {
					t.Errorf("the event was merged %d times", event.Series.Count)
				}
			}
			return ""
		})
	}
}

func TestStatus_WrongDatabasePasswordStallsAndHeals(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServerWithPassword(t, "first")
	b := newHarness(t, func(o *options) {
		o.databaseURL = func(t testing.TB) string { return testenv.Database(t, server) }
		o.config.OutageGrace = time.Hour
	})
	object, pins := b.account("demo"), b.settings("site", "demo")
	b.ready(object)
	b.ready(pins)
	admin, err := pgx.Connect(b.ctx, server.Server.AdminURL("postgres"))
	must(t, err)
	defer func() { _ = admin.Close(b.ctx) }()
	must(t, check.ErrorOf(admin.Exec(b.ctx, "ALTER ROLE mediastack PASSWORD 'second'")))
	must(t, check.ErrorOf(admin.Exec(b.ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'mediastack'")))
	b.shows(object, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonDatabaseCredentials)
	b.shows(pins, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonDatabaseCredentials)
	if text := message(object, v1alpha1.ConditionReady); !strings.Contains(text, "SERVICE_DATABASE_URL") || strings.Contains(text, "first") {
		t.Errorf("the message is %q", text)
	}
	must(t, check.ErrorOf(admin.Exec(b.ctx, "ALTER ROLE mediastack PASSWORD 'first'")))
	b.ready(object)
	b.ready(pins)
}

func TestStatus_S3QuotaStallsAndHeals(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	full.Store(true)
	b := newHarness(t, func(o *options) {
		o.s3 = func(t testing.TB) testenv.S3Access {
			return testenv.S3Proxy(t, testenv.S3(t), func(w http.ResponseWriter, r *http.Request) bool {
				if !full.Load() || r.Method != http.MethodPut {
					return false
				}
				w.Header().Set("Content-Type", "application/xml")
				w.WriteHeader(http.StatusForbidden)
				_, _ = fmt.Fprint(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>QuotaExceeded</Code></Error>`)
				return true
			})
		}
	})
	object := b.account("demo")
	b.shows(object, v1alpha1.ConditionBucketReady, metav1.ConditionFalse, v1alpha1.ReasonObjectStoreQuota)
	b.shows(object, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonObjectStoreQuota)
	b.shows(object, v1alpha1.ConditionKeysReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	full.Store(false)
	b.ready(object)
}

// A deleted bucket was once made again, empty, while Ready stayed True.
func TestBucket_LostWithMediaStallsUntilAcknowledged(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo")
	b.seedItems(b.databaseURL, object, 1)
	bucket := object.Status.Bucket
	must(t, b.store.Remove(b.ctx, bucket, []string{objectstore.MarkerKey}))
	must(t, b.store.RemoveBucket(b.ctx, bucket))
	b.shows(object, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonMediaLost)
	b.shows(object, v1alpha1.ConditionBucketReady, metav1.ConditionFalse, v1alpha1.ReasonMediaLost)
	b.shows(object, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonMediaLost)
	want := fmt.Sprintf("%s: %q", v1alpha1.AnnotationAcknowledgeMediaLoss, object.Status.AccountID)
	if text := message(object, v1alpha1.ConditionReady); !strings.Contains(text, want) || !strings.Contains(text, bucket) {
		t.Errorf("the message does not say what to do: %s", text)
	}
	if found, err := b.registry.Find(b.ctx, b.namespace, "demo"); err != nil || found.BucketOwned {
		t.Errorf("uploads are not closed: %v", err)
	}
	wait.UntilNone(b.t, func() string {
		if len(b.eventsOf(v1alpha1.ReasonMediaLost)) == 0 {
			return "there is no event"
		}
		return ""
	})
	// Another account's id, as in a copied manifest, acknowledges nothing.
	checked := b.buckets.of(bucket)
	acknowledge(b, object, "0190c0de-0000-7000-8000-000000000000")
	wait.UntilNone(b.t, func() string {
		if b.buckets.of(bucket) < checked+3 {
			return "the bucket was not checked again"
		}
		return ""
	})
	b.hasNoBucket(bucket)
	acknowledge(b, object, object.Status.AccountID)
	b.ready(object)
	if owner, err := b.store.Owner(b.ctx, bucket); err != nil || owner.AccountID != object.Status.AccountID {
		t.Errorf("the bucket was not made again: %v", err)
	}
	// An acknowledgement is for one loss.
	wait.UntilNone(b.t, func() string {
		must(t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
		if _, still := object.Annotations[v1alpha1.AnnotationAcknowledgeMediaLoss]; still {
			return "the annotation is still there"
		}
		return ""
	})
	must(t, b.store.Remove(b.ctx, bucket, []string{objectstore.MarkerKey}))
	must(t, b.store.RemoveBucket(b.ctx, bucket))
	b.shows(object, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonMediaLost)
}

func acknowledge(b *harness, object *v1alpha1.MediaAccount, id string) {
	b.t.Helper()
	change(b, object, func(a *v1alpha1.MediaAccount) {
		metav1.SetMetaDataAnnotation(&a.ObjectMeta, v1alpha1.AnnotationAcknowledgeMediaLoss, id)
	})
}

// A bucket that another user made again was once taken as the account's, which was Ready without
// its files, and whose deletion would have removed the other's objects.
func TestBucket_MadeAgainByAnotherIsNotTaken(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo")
	b.seedItems(b.databaseURL, object, 1)
	b.exec(`UPDATE item SET objects = '[{"key": "photo"}]', sealed_at = now()`)
	bucket := object.Status.Bucket
	must(t, b.store.Remove(b.ctx, bucket, []string{objectstore.MarkerKey}))
	must(t, b.store.Put(b.ctx, bucket, "backup/foo.png", "image/png", strings.NewReader("bytes"), 5))
	b.shows(object, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonMediaLost)
	b.shows(object, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonMediaLost)
	checked := b.buckets.of(bucket)
	wait.UntilNone(b.t, func() string {
		if b.buckets.of(bucket) < checked+4 { // a check asks twice
			return "the bucket was not checked again"
		}
		return ""
	})
	if _, err := b.store.Owner(b.ctx, bucket); !fault.Is(err, fault.NotFound) {
		t.Errorf("a marker was written: %v", err)
	}
	// The files are restored: the bucket is the account's again.
	must(t, b.store.Put(b.ctx, bucket, "photo", "image/jpeg", strings.NewReader("bytes"), 5))
	b.ready(object)
	if owner, err := b.store.Owner(b.ctx, bucket); err != nil || owner.AccountID != object.Status.AccountID {
		t.Errorf("the marker is %s, %v", owner, err)
	}
}

func TestBucket_VanishedMarkerIsWrittenAgain(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	object := b.readyAccount("demo")
	b.seedItems(b.databaseURL, object, 1)
	b.exec(`UPDATE item SET objects = '[{"key": "photo"}]'`)
	bucket := object.Status.Bucket
	must(t, b.store.Put(b.ctx, bucket, "photo", "image/jpeg", strings.NewReader("bytes"), 5))
	must(t, b.store.Remove(b.ctx, bucket, []string{objectstore.MarkerKey}))
	wait.UntilNone(b.t, func() string {
		if owner, err := b.store.Owner(b.ctx, bucket); err != nil || owner.AccountID != object.Status.AccountID {
			return fmt.Sprintf("the marker is missing: %v", err)
		}
		if len(b.eventsOf("BucketRestored")) == 0 {
			return "there is no event"
		}
		return ""
	})
	if _, err := b.store.Stat(b.ctx, bucket, "photo"); err != nil {
		t.Errorf("the bucket lost an object: %v", err)
	}
	b.staysReady(object)
}

// staysReady fails the test if a recorded version of an object that was Ready once is not.
func (b *harness) staysReady(object client.Object) {
	b.t.Helper()
	was := false
	for _, version := range b.recorder.Versions("MediaAccount", object.GetName()) {
		seen := &v1alpha1.MediaAccount{}
		must(b.t, runtime.DefaultUnstructuredConverter.FromUnstructured(version.Object, seen))
		is := meta.IsStatusConditionTrue(seen.Status.Conditions, v1alpha1.ConditionReady)
		if was && !is {
			b.t.Errorf("%s was not Ready: %s", object.GetName(), describe(seen.Status.Conditions))
		}
		was = was || is
	}
	if !was {
		b.t.Errorf("no recorded version of %s is Ready", object.GetName())
	}
}

func TestStatus_StorageNearAndOverTheCap(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) {
		o.config.UsageInterval = time.Hour // a changed cap is measured at once
	})
	capOf := func(text string) func(*v1alpha1.MediaAccount) {
		return func(a *v1alpha1.MediaAccount) { a.Spec.Storage.MaxStorage = quantity(text) }
	}
	object := b.readyAccount("demo", capOf("2000Mi"))
	b.shows(object, v1alpha1.ConditionStorageAvailable, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	conn, err := pgx.Connect(b.ctx, b.databaseURL)
	must(t, err)
	defer func() { _ = conn.Close(b.ctx) }()
	must(t, check.ErrorOf(conn.Exec(b.ctx, "UPDATE account_usage SET bytes = 900 * 1048576::bigint WHERE account_id = $1", b.accountID(object))))
	change(b, object, capOf("1000Mi"))
	b.shows(object, v1alpha1.ConditionStorageAvailable, metav1.ConditionTrue, v1alpha1.ReasonStorageNearFull)
	if object.Status.Usage.UsedBytes != 900<<20 || object.Status.Usage.Used != "900Mi" {
		t.Errorf("the status shows %+v", object.Status.Usage)
	}
	change(b, object, capOf("900Mi"))
	b.shows(object, v1alpha1.ConditionStorageAvailable, metav1.ConditionFalse, v1alpha1.ReasonStorageFull)
	b.ready(object)
	change(b, object, capOf("2000Mi"))
	b.shows(object, v1alpha1.ConditionStorageAvailable, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
}

func TestStatus_NotReadyWithoutARuntime(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.noRuntime = true })
	object := b.account("demo")
	b.shows(object, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRuntimeUnavailable)
	b.shows(object, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonRuntimeUnavailable)
	if object.Status.Runtime == nil || object.Status.Runtime.Replicas != 0 {
		t.Errorf("the status shows %+v", object.Status.Runtime)
	}
	stop := b.startRuntime()
	b.ready(object)
	if got := object.Status.Runtime; got == nil || got.Replicas != 1 || len(got.Versions) != 1 || got.Versions[0] != "test" {
		t.Errorf("the status shows %+v", got)
	}
	stop()
	b.shows(object, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRuntimeUnavailable)
}

// A status can be written by everyone who may edit it: it must not decide anything.
func TestStatus_ForgedHasNoEffectAndIsCorrected(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	victim, forger := b.account("victim"), b.account("forger")
	b.ready(victim)
	b.ready(forger)
	theirs := b.settings("theirs", "victim", pinQuality(50))
	b.ready(theirs)
	honest := forger.Status.DeepCopy()
	key := b.secret("forger", "default").Data["apiKey"]
	before, err := b.registry.Find(b.ctx, b.namespace, "forger")
	must(t, err)

	patch := client.MergeFrom(forger.DeepCopy())
	forger.Status.AccountID, forger.Status.Bucket, forger.Status.ObservedGeneration = victim.Status.AccountID, victim.Status.Bucket, -1
	forger.Status.Keys = victim.Status.Keys
	forger.Status.Endpoints.REST = "https://evil.example.org"
	forger.Status.Usage.UsedBytes = 1 << 40
	for i := range forger.Status.Conditions {
		condition := &forger.Status.Conditions[i]
		condition.Status, condition.Message = metav1.ConditionFalse, "forged"
		if condition.Type == v1alpha1.ConditionReconciling { // a lie that does not contradict itself
			condition.Status = metav1.ConditionTrue
		}
	}
	must(t, b.Status().Patch(b.ctx, forger, patch))
	mine := b.settings("mine", "forger", pinQuality(60))
	wait.UntilNone(b.t, func() string {
		must(t, b.Get(b.ctx, client.ObjectKeyFromObject(forger), forger))
		got := forger.Status
		switch {
		case got.AccountID != honest.AccountID || got.Bucket != honest.Bucket || got.ObservedGeneration != forger.Generation,
			got.Endpoints.REST != honest.Endpoints.REST, got.Usage.UsedBytes != honest.Usage.UsedBytes,
			len(got.Keys) != 1 || got.Keys[0].SecretName != honest.Keys[0].SecretName:
			return fmt.Sprintf("the status is still forged: %+v", got)
		}
		for _, condition := range got.Conditions {
			if condition.Message == "forged" {
				return "a condition is still forged: " + condition.Type
			}
		}
		return lacks(got.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	})
	b.ready(mine)
	b.holds(victim, 50, "theirs")
	b.holds(forger, 60, "mine")
	after, err := b.registry.Find(b.ctx, b.namespace, "forger")
	must(t, err)
	if after.ID != before.ID || after.Bucket != before.Bucket || !after.BucketOwned {
		t.Errorf("the account went from %+v to %+v", before, after)
	}
	if string(b.secret("forger", "default").Data["apiKey"]) != string(key) || !b.opens(key) {
		t.Error("the key was changed")
	}
	if owner, err := b.store.Owner(b.ctx, victim.Status.Bucket); err != nil || owner.AccountID != victim.Status.AccountID {
		t.Errorf("the victim's bucket has the marker %+v, %v", owner, err)
	}
}

// A forged status once pinned the settings of another tenant. Here nothing corrects it meanwhile.
func TestSettings_ForgedStatusOfTheAccountHasNoEffect(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.config.BucketCheckInterval, o.config.UsageInterval = time.Hour, time.Hour })
	victim, forger := b.account("victim"), b.account("forger")
	b.ready(victim)
	b.ready(forger)
	theirs := b.settings("theirs", "victim", pinQuality(50))
	b.ready(theirs)
	own := forger.DeepCopy()
	patch := client.MergeFrom(forger.DeepCopy())
	forger.Status.AccountID = victim.Status.AccountID
	must(t, b.Status().Patch(b.ctx, forger, patch))
	mine := b.settings("mine", "forger", pinQuality(60))
	b.ready(mine)
	b.holds(victim, 50, "theirs")
	b.holds(own, 60, "mine")
}

// Pins outlived their object when its finalizer was removed by hand.
func TestSettings_PinsOfAGoneObjectArePurged(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	account := b.readyAccount("demo")
	pins := b.settings("site", "demo", pinQuality(60))
	b.ready(pins)
	b.holds(account, 60, "site")
	must(t, b.Patch(b.ctx, pins, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	must(t, b.Delete(b.ctx, pins))
	b.gone(pins)
	b.holds(account, 80, "")
	// Pins of an object that exists stay, although another object of its name had some.
	again := b.settings("site", "demo", pinQuality(70))
	b.ready(again)
	must(t, settings.NewService(b.database.Settings).Unpin(b.ctx, string(pins.UID)))
	b.holds(account, 70, "site")
}

// A wrong S3 region and a skewed clock once showed as an outage and as a wrong key.
func TestStatus_WrongS3RegionAndClockStallAndHeal(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.config.OutageGrace = time.Hour })
	object := b.readyAccount("demo")
	skewed := testenv.S3Proxy(t, testenv.S3(t), func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("<Error><Code>RequestTimeTooSkewed</Code><Message>The difference between the request time and the current time is too large.</Message></Error>"))
		return true
	})
	for _, c := range []struct {
		access testenv.S3Access
		region string
		reason string
		says   []string
	}{
		{testenv.S3(t), "mars-north-1", v1alpha1.ReasonObjectStoreRegion, []string{"correct SERVICE_S3_REGION", "SERVICE_S3_REGION is mars-north-1, the store expects " + testenv.S3(t).Region}},
		{skewed, skewed.Region, v1alpha1.ReasonObjectStoreClock, []string{"clock", "RequestTimeTooSkewed"}},
	} {
		b.buckets.use(storeWith(t, c.access, func(a *testenv.S3Access) { a.Region = c.region }))
		b.shows(object, v1alpha1.ConditionStalled, metav1.ConditionTrue, c.reason)
		b.shows(object, v1alpha1.ConditionBucketReady, metav1.ConditionFalse, c.reason)
		for _, text := range c.says {
			if got := message(object, v1alpha1.ConditionReady); !strings.Contains(got, text) {
				t.Errorf("%s: the message does not say %q: %s", c.reason, text, got)
			}
		}
		b.buckets.use(b.store)
		b.ready(object)
	}
}
