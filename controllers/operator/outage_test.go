package operator_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
)

func TestOutage_OfTheObjectStoreShowsAndRecovers(t *testing.T) {
	t.Parallel()
	server := testenv.S3Server(t)
	b := newHarness(t, func(o *options) { o.s3 = func(testing.TB) testenv.S3Access { return server.Server.Access } })
	old := b.readyAccount("old")
	server.Stop()
	b.shows(old, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonObjectStoreUnavailable)
	b.shows(old, v1alpha1.ConditionBucketReady, metav1.ConditionUnknown, v1alpha1.ReasonObjectStoreUnavailable)
	b.shows(old, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonObjectStoreUnavailable)
	// The steps that do not need the store succeed.
	fresh := b.account("fresh")
	b.shows(fresh, v1alpha1.ConditionKeysReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	if fresh.Status.ObservedGeneration != -1 {
		t.Errorf("the generation counts as observed (%d) while it is being retried", fresh.Status.ObservedGeneration)
	}
	server.Start()
	b.ready(old)
	b.ready(fresh)
}

func TestOutage_OfTheDatabaseShowsAndRecovers(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	b := newHarness(t, func(o *options) {
		o.databaseURL = func(t testing.TB) string { return testenv.Database(t, server) }
	})
	object, pins := b.account("demo"), b.settings("site", "demo")
	b.ready(object)
	b.ready(pins)
	key := b.secret("demo", "default").Data["apiKey"]
	server.Stop()
	b.shows(object, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDatabaseUnavailable)
	b.shows(object, v1alpha1.ConditionBucketReady, metav1.ConditionUnknown, v1alpha1.ReasonDatabaseUnavailable)
	b.shows(pins, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDatabaseUnavailable)
	server.Start()
	b.ready(object)
	b.ready(pins)
	if string(b.secret("demo", "default").Data["apiKey"]) != string(key) {
		t.Error("an outage of the database changed the key")
	}
}

// The operator was Ready while PostgreSQL was away, and reconciled nothing.
func TestReadiness_NamesTheDatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	port := testenv.FreePort(t)
	b := newHarness(t, func(o *options) {
		o.databaseURL = func(t testing.TB) string { return testenv.Database(t, server) }
		o.idle, o.noRuntime = true, true
		o.config.HealthListen = fmt.Sprintf("127.0.0.1:%d", port)
	})
	ready := func() {
		wait.UntilNone(b.t, func() string {
			if status, body := probe(t, port, "/readyz"); status != http.StatusOK {
				return "the operator is not ready: " + body
			}
			return ""
		})
	}
	server.Stop()
	b.run(b.config)
	for range 2 { // at the start, and after it was ready
		notReady(t, b, port, "the database is unreachable")
		if status, body := probe(t, port, "/healthz"); status != http.StatusOK {
			t.Errorf("without a database the operator is not alive: %d %s", status, body)
		}
		server.Start()
		ready()
		server.Stop()
	}
	notReady(t, b, port, "the database is unreachable")
}

// A rollout with a wrong S3 key once replaced every operator, and stalled all accounts.
func TestReadiness_NeedsAnS3KeyThatWasAccepted(t *testing.T) {
	t.Parallel()
	port := testenv.FreePort(t)
	b := newHarness(t, func(o *options) {
		o.idle, o.noRuntime = true, true
		o.config.HealthListen = fmt.Sprintf("127.0.0.1:%d", port)
	})
	wrong := storeWith(t, testenv.S3(t), func(a *testenv.S3Access) { a.SecretKey += "x" })
	b.buckets.use(wrong)
	b.run(b.config)
	answers := func(status int, what string) {
		t.Helper()
		wait.UntilNone(b.t, func() string {
			if got, body := probe(t, port, "/readyz/objects"); got != status {
				return fmt.Sprintf("%s: %d %s", what, got, body)
			}
			return ""
		})
	}
	answers(http.StatusInternalServerError, "the key is wrong")
	b.buckets.use(b.store)
	answers(http.StatusOK, "the key is right")
	b.buckets.use(wrong)
	answers(http.StatusOK, "the key was right, and is rejected later")
	wait.UntilNone(b.t, func() string {
		if status, body := probe(t, port, "/readyz"); status != http.StatusOK {
			return body
		}
		return ""
	})
}

func TestOutage_DeletionWaitsForTheStores(t *testing.T) {
	t.Parallel()
	s3, postgres := testenv.S3Server(t), testenv.PostgresServer(t)
	b := newHarness(t, func(o *options) {
		o.databaseURL = func(t testing.TB) string { return testenv.Database(t, postgres) }
		o.s3 = func(testing.TB) testenv.S3Access { return s3.Server.Access }
		o.config.BucketCheckInterval, o.config.UsageInterval = time.Hour, time.Hour
	})
	object := b.readyAccount("demo", deleting)
	postgres.Stop()
	must(t, b.Delete(b.ctx, object))
	b.shows(object, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDatabaseUnavailable)
	s3.Stop()
	postgres.Start()
	b.shows(object, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonObjectStoreUnavailable)
	bucket := object.Status.Bucket
	s3.Start()
	b.gone(object)
	b.hasNoBucket(bucket)
}
