package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/minio/minio-go/v7"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/servers"
	"mediastack.dev/runtime/objectstore"
)

// bareLoop is the name of the process in tables.
const bareLoop = "loop"

// Settings of the bare loop, besides those of the S3 store that it has in common with the proxy.
const (
	loopTemplate   = "BENCH_LOOP_TEMPLATE"
	loopKubeconfig = "BENCH_LOOP_KUBECONFIG"
	loopDatabase   = "BENCH_LOOP_DATABASE"
)

// loop writes for each new account what any operator must write, and looks at nothing: a finalizer, the
// rows in one transaction, the bucket with its marker, the Secrets, the status and one event; for each
// new MediaSettings a finalizer and the status.
type loop struct {
	template template
	api      *rest.RESTClient
	metadata metadata.Interface
	database *pgxpool.Pool
	store    *minio.Core
	ids      []string // that differ for each account
	hashes   []string
}

var (
	idPattern   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	hashPattern = regexp.MustCompile(`[0-9a-f]{64}`)
)

func mountLoop(ctx context.Context, _ *http.ServeMux) error {
	l, err := newLoop(ctx)
	if err != nil {
		return err
	}
	for resource, provide := range map[string]func(context.Context, object) error{"mediaaccounts": l.account, "mediasettings": l.settings} {
		if err := l.serve(ctx, resource, provide); err != nil {
			return err
		}
	}
	return nil
}

func newLoop(ctx context.Context) (*loop, error) {
	l := &loop{}
	text, err := os.ReadFile(os.Getenv(loopTemplate))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &l.template); err != nil {
		return nil, err
	}
	for _, table := range l.template.Rows {
		l.ids = appendNew(l.ids, idPattern.FindAllString(string(table.Rows), -1), uuid.Nil.String(), l.template.UID)
		l.hashes = appendNew(l.hashes, hashPattern.FindAllString(string(table.Rows), -1))
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(loopKubeconfig))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.GroupVersion, config.NegotiatedSerializer = &schema.GroupVersion{}, serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	if l.api, err = rest.UnversionedRESTClientFor(config); err != nil {
		return nil, err
	}
	if l.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}
	pool, err := pgxpool.ParseConfig(os.Getenv(loopDatabase))
	if err != nil {
		return nil, err
	}
	pool.MaxConns = creators
	if l.database, err = pgxpool.NewWithConfig(ctx, pool); err != nil {
		return nil, err
	}
	l.store, err = newS3Client(servers.S3Access{Endpoint: os.Getenv(proxyEndpoint), Region: "us-east-1", AccessKey: os.Getenv(proxyAccess), SecretKey: os.Getenv(proxySecret)})
	return l, err
}

// appendNew adds the texts that are not in the list, and not excluded.
func appendNew(list, texts []string, excluded ...string) []string {
	seen := map[string]bool{}
	for _, text := range append(excluded, list...) {
		seen[text] = true
	}
	for _, text := range texts {
		if !seen[text] {
			seen[text], list = true, append(list, text)
		}
	}
	return list
}

// object is a new object.
type object struct{ namespace, name, uid, version string }

// serve has workers provide the objects of a resource as they are created.
func (l *loop) serve(ctx context.Context, resource string, provide func(context.Context, object) error) error {
	events, err := l.metadata.Resource(v1alpha1.GroupVersion.WithResource(resource)).Namespace(bareNamespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	queue := make(chan object, 1<<16)
	go func() {
		defer close(queue)
		for event := range events.ResultChan() {
			if found, ok := event.Object.(*metav1.PartialObjectMetadata); ok && event.Type == watch.Added {
				queue <- object{found.Namespace, found.Name, string(found.UID), found.ResourceVersion}
			}
		}
	}()
	for range creators {
		go func() {
			for next := range queue {
				if err := provide(ctx, next); err != nil {
					fmt.Fprintf(os.Stderr, "ERROR: provide %s %s: %v\n", resource, next.name, err)
				}
			}
		}()
	}
	return nil
}

// account writes everything for a MediaAccount.
func (l *loop) account(ctx context.Context, o object) error {
	values := l.values(o)
	if err := l.addFinalizer(ctx, "mediaaccounts", o); err != nil {
		return err
	}
	if err := pgx.BeginFunc(ctx, l.database, func(tx pgx.Tx) error { return l.insert(ctx, tx, values) }); err != nil {
		return err
	}
	bucket := values.Replace(l.template.Bucket)
	if err := l.store.MakeBucket(ctx, bucket, minio.MakeBucketOptions{}); err != nil {
		return err
	}
	marker := fmt.Appendf(nil, `{"accountID":%q,"namespace":%q,"name":%q,"installationID":%q,"epoch":1}`, o.uid, o.namespace, o.name, o.uid)
	_, err := l.store.PutObject(ctx, bucket, objectstore.MarkerKey, bytes.NewReader(marker), int64(len(marker)), "", "", minio.PutObjectOptions{ContentType: "application/json"})
	if err != nil {
		return err
	}
	for _, secret := range l.template.Secrets {
		if err := l.post(ctx, "/api/v1/namespaces/"+o.namespace+"/secrets", values.Replace(string(secret))); err != nil {
			return err
		}
	}
	if err := l.patchStatus(ctx, "mediaaccounts", o, values.Replace(string(l.template.AccountStatus))); err != nil {
		return err
	}
	return l.post(ctx, "/apis/events.k8s.io/v1/namespaces/"+o.namespace+"/events", event(o))
}

// settings writes everything for a MediaSettings; the rows are in the account's transaction.
func (l *loop) settings(ctx context.Context, o object) error {
	if err := l.addFinalizer(ctx, "mediasettings", o); err != nil {
		return err
	}
	return l.patchStatus(ctx, "mediasettings", o, l.values(o).Replace(string(l.template.SettingsStatus)))
}

// values replaces the names and ids of the template by those of an account.
func (l *loop) values(o object) *strings.Replacer {
	random := make([]byte, sha256Bytes)
	pairs := []string{l.template.Bucket, "bench-loop-" + o.uid, l.template.Namespace, o.namespace, l.template.Name, o.name, l.template.UID, o.uid}
	for _, id := range l.ids {
		pairs = append(pairs, id, uuid.Must(uuid.NewV7()).String())
	}
	for _, hash := range l.hashes {
		_, _ = rand.Read(random) // never fails, by its contract
		pairs = append(pairs, hash, hex.EncodeToString(random))
	}
	return strings.NewReplacer(pairs...)
}

const sha256Bytes = 32

// insert writes all rows in one round trip.
func (l *loop) insert(ctx context.Context, tx pgx.Tx, values *strings.Replacer) error {
	var batch pgx.Batch
	for _, table := range l.template.Rows {
		name := pgx.Identifier{table.Table}.Sanitize()
		batch.Queue("INSERT INTO "+name+" SELECT * FROM json_populate_recordset(NULL::"+name+", $1)", values.Replace(string(table.Rows)))
	}
	return tx.SendBatch(ctx, &batch).Close()
}

func (l *loop) addFinalizer(ctx context.Context, resource string, o object) error {
	body := fmt.Appendf(nil, `{"metadata":{"finalizers":[%q],"resourceVersion":%q}}`, v1alpha1.Finalizer, o.version)
	return l.patch(ctx, objectPath(resource, o), body)
}

func (l *loop) patchStatus(ctx context.Context, resource string, o object, status string) error {
	return l.patch(ctx, objectPath(resource, o)+"/status", []byte(`{"status":`+status+`}`))
}

func objectPath(resource string, o object) string {
	return "/apis/" + v1alpha1.GroupVersion.String() + "/namespaces/" + o.namespace + "/" + resource + "/" + o.name
}

func (l *loop) patch(ctx context.Context, path string, body []byte) error {
	_, err := l.api.Patch(types.MergePatchType).AbsPath(path).Body(body).Do(ctx).Raw()
	return err
}

func (l *loop) post(ctx context.Context, path, body string) error {
	_, err := l.api.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(ctx).Raw()
	return err
}

// event is the one event of an account.
func event(o object) string {
	return fmt.Sprintf(`{"metadata":{"name":"%s.%x","namespace":%q},"eventTime":%q,"reportingController":"bench","reportingInstance":"bench-0","action":"Reconcile","reason":"Succeeded","type":"Normal",
		"regarding":{"apiVersion":%q,"kind":"MediaAccount","namespace":%q,"name":%q,"uid":%q},"note":"The account is ready for use"}`,
		o.name, time.Now().UnixNano(), o.namespace, time.Now().UTC().Format(metav1.RFC3339Micro), v1alpha1.GroupVersion.String(), o.namespace, o.name, o.uid)
}
