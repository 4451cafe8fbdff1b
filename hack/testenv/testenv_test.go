package testenv_test

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	miniogo "github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
)

var must = check.NoError

func TestMain(m *testing.M) { testenv.Main(m) }

func TestPostgres_IsolatesTests(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	first, second := testenv.Postgres(t), testenv.Postgres(t)
	if first == second {
		t.Fatalf("two databases have the same URL %s", first)
	}
	conn, err := pgx.Connect(ctx, first)
	must(t, err)
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE TABLE items (id int)"); err != nil {
		t.Fatal(err)
	}
	var superuser bool
	must(t, conn.QueryRow(ctx, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user").Scan(&superuser))
	if superuser {
		t.Error("tests run as superuser, so they can't find a missing grant")
	}
}

func TestPostgresServer_KeepsDataAndURLOverACrash(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := testenv.PostgresServer(t)
	url := testenv.Database(t, server)
	conn, err := pgx.Connect(ctx, url)
	must(t, err)
	if _, err := conn.Exec(ctx, "CREATE TABLE items (id int)"); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if err := conn.Ping(ctx); err == nil {
		t.Error("the killed server still answers")
	}
	server.Start()
	conn, err = pgx.Connect(ctx, url)
	must(t, err)
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "INSERT INTO items VALUES (1)"); err != nil {
		t.Error(err)
	}
}

// A commit that was acknowledged is on the replica that is promoted, whatever happens to the primary.
func TestStandby_HasEveryAcknowledgedCommit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	primary := testenv.PostgresServer(t)
	conn, err := pgx.Connect(ctx, testenv.Database(t, primary))
	must(t, err)
	name := conn.Config().Database
	dir := testenv.TempDir(t)
	replica, err := primary.Server.StartStandby(ctx, servers.PostgresConfig{Dir: filepath.Join(dir, "replica"), LogFile: filepath.Join(dir, "replica.log"), Volatile: true})
	must(t, err)
	if _, err := conn.Exec(ctx, "CREATE TABLE items (id int); INSERT INTO items VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	primary.Kill()
	must(t, replica.Promote(ctx))
	promoted, err := pgx.Connect(ctx, replica.AdminURL(name))
	must(t, err)
	defer promoted.Close(ctx)
	var id int
	if err := promoted.QueryRow(ctx, "INSERT INTO items SELECT id + 1 FROM items RETURNING id").Scan(&id); err != nil || id != 2 {
		t.Errorf("the promoted replica: %d, %v", id, err)
	}
}

func TestStores_KeepObjects(t *testing.T) {
	t.Parallel()
	for name, access := range testenv.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			roundTrip(t, access(t))
		})
	}
}

func roundTrip(t *testing.T, access servers.S3Access) {
	t.Helper()
	ctx := t.Context()
	client, err := miniogo.New(strings.TrimPrefix(access.Endpoint, "http://"), &miniogo.Options{
		Creds:  credentials.NewStaticV4(access.AccessKey, access.SecretKey, ""),
		Region: access.Region,
	})
	must(t, err)
	bucket := "bucket-" + servers.RandomSecret(6)
	must(t, client.MakeBucket(ctx, bucket, miniogo.MakeBucketOptions{}))
	want := []byte("bytes")
	options := miniogo.PutObjectOptions{DisableContentSha256: true}
	if _, err := client.PutObject(ctx, bucket, "a/b", bytes.NewReader(want), int64(len(want)), options); err != nil {
		t.Fatal(err)
	}
	object, err := client.GetObject(ctx, bucket, "a/b", miniogo.GetObjectOptions{})
	must(t, err)
	t.Cleanup(func() { _ = object.Close() })
	got, err := io.ReadAll(object)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestS3Server_KeepsDataAndAddressOverARestart(t *testing.T) {
	t.Parallel()
	server := testenv.S3Server(t)
	before := server.Server.Access
	roundTrip(t, before)
	server.Stop()
	server.Start()
	if server.Server.Access != before {
		t.Errorf("access changed from %+v to %+v", before, server.Server.Access)
	}
	roundTrip(t, server.Server.Access)
}

func TestKubernetes_EnforcesRBAC(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	admin, err := kubernetes.NewForConfig(testenv.Kubernetes(t))
	must(t, err)
	namespace, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	must(t, err)
	if _, err := admin.CoreV1().ServiceAccounts(namespace.Name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "nobody"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", testenv.ServiceAccountKubeconfig(t, namespace.Name, "nobody"))
	must(t, err)
	nobody, err := kubernetes.NewForConfig(config)
	must(t, err)
	if _, err := nobody.CoreV1().Secrets(namespace.Name).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a service account without a role lists Secrets: %v", err)
	}
}

// An operator meets the controllers of a real cluster: tests that count on them must not pass
// because nothing collects garbage, empties namespaces or counts objects.
func TestKubernetes_RunsControllers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	plane := testenv.SharedKubernetes(t)
	admin, err := kubernetes.NewForConfig(plane.Access())
	must(t, err)
	namespace, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	must(t, err)
	secrets := admin.CoreV1().Secrets(namespace.Name)
	owner := mediaAccount(t, plane, namespace.Name)
	dependent := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "dependent", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())}}}
	if _, err := secrets.Create(ctx, dependent, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	deleteMediaAccount(t, plane, owner)
	wait.Until(t, "the Secret of a deleted owner is collected", func() bool {
		_, err := secrets.Get(ctx, "dependent", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})

	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": resource.MustParse("0")}}}
	if _, err := admin.CoreV1().ResourceQuotas(namespace.Name).Create(ctx, quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "a quota rejects Secrets", func() bool {
		_, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "more-"}}, metav1.CreateOptions{})
		return apierrors.IsForbidden(err)
	})

	must(t, admin.CoreV1().Namespaces().Delete(ctx, namespace.Name, metav1.DeleteOptions{}))
	wait.Until(t, "the namespace is gone", func() bool {
		_, err := admin.CoreV1().Namespaces().Get(ctx, namespace.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func accounts(t *testing.T, plane *testenv.ControlPlane, namespace string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(plane.Access())
	must(t, err)
	return client.Resource(schema.GroupVersionResource{Group: "mediastack.dev", Version: "v1alpha1", Resource: "mediaaccounts"}).Namespace(namespace)
}

func mediaAccount(t *testing.T, plane *testenv.ControlPlane, namespace string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "mediastack.dev/v1alpha1", "kind": "MediaAccount", "metadata": map[string]any{"name": "demo"}, "spec": map[string]any{}}}
	created, err := accounts(t, plane, namespace).Create(t.Context(), object, metav1.CreateOptions{})
	must(t, err)
	return created
}

func deleteMediaAccount(t *testing.T, plane *testenv.ControlPlane, object *unstructured.Unstructured) {
	t.Helper()
	must(t, accounts(t, plane, object.GetNamespace()).Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}))
}

func TestNewKubernetes_KeepsObjectsAndCredentialsOverACrash(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	plane := testenv.NewKubernetes(t)
	object := mediaAccount(t, plane, "default")
	plane.KillAPIServer()
	if _, err := accounts(t, plane, "default").Get(ctx, "demo", metav1.GetOptions{}); err == nil {
		t.Error("the killed API server still answers")
	}
	plane.StartAPIServer()
	found, err := accounts(t, plane, "default").Get(ctx, "demo", metav1.GetOptions{})
	if err != nil || found.GetUID() != object.GetUID() {
		t.Errorf("got %v, %v", found, err)
	}
	if _, err := accounts(t, testenv.SharedKubernetes(t), "default").Get(ctx, "demo", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the shared control plane has the object of another one: %v", err)
	}
}
