package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/setup"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/objectstore"
	pgstore "mediastack.dev/runtime/postgres"
)

// rig is the stack that is measured, without Kubernetes: PostgreSQL and an S3 store.
// Benchmarks add tenants, provisioned as the operator does it, and runtimes.
type rig struct {
	options
	group   *servers.Group
	dir     string
	server  *servers.Postgres
	s3      *servers.S3
	bare    *minio.Core
	store   *pgstore.Store
	objects *objectstore.Store
	secret  string
	watched map[string]int // process ids by name, for CPU time
}

const database = "bench"

func startRig(ctx context.Context, o options) (*rig, error) {
	if o.Dir != "" && !servers.PostgresCanReach(o.Dir) {
		return nil, fmt.Errorf("the user postgres can't reach %s: choose another --dir", o.Dir)
	}
	dir, err := os.MkdirTemp(o.Dir, "mediastack-bench-")
	if err != nil {
		return nil, err
	}
	r := &rig{options: o, group: servers.NewGroup(), dir: dir, secret: servers.RandomSecret(32), watched: map[string]int{}}
	if err := r.begin(ctx); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *rig) begin(ctx context.Context) error {
	if err := os.Chmod(r.dir, 0o755); err != nil { // the user postgres must pass
		return err
	}
	var err error
	r.server, err = r.group.StartPostgres(ctx, servers.PostgresConfig{
		Dir: filepath.Join(r.dir, "postgres"), LogFile: filepath.Join(r.dir, "postgres.log"), Volatile: r.volatile,
	})
	if err != nil {
		return err
	}
	if err := r.server.CreateDatabase(ctx, database); err != nil {
		return err
	}
	if r.s3, err = r.group.StartS3(ctx, servers.S3Config{Dir: filepath.Join(r.dir, "s3"), LogFile: filepath.Join(r.dir, "s3.log")}); err != nil {
		return err
	}
	r.watched[postgres], r.watched[store] = r.server.PID(), r.s3.PID()
	cfg := pgstore.Config{DatabaseURL: r.server.URL(database)}
	if err := pgstore.Migrate(ctx, cfg, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	if r.store, err = pgstore.Open(ctx, cfg); err != nil {
		return err
	}
	access := r.s3.Access
	r.objects, err = objectstore.New(objectstore.Config{Endpoint: access.Endpoint, Region: access.Region, AccessKey: access.AccessKey, SecretKey: access.SecretKey})
	if err != nil {
		return err
	}
	transport, err := minio.DefaultTransport(false)
	if err != nil {
		return err
	}
	transport.MaxIdleConnsPerHost = 256 // as the runtime's own client keeps them
	r.bare, err = minio.NewCore(strings.TrimPrefix(access.Endpoint, "http://"), &minio.Options{Region: access.Region, Transport: transport,
		Creds: credentials.NewStaticV4(access.AccessKey, access.SecretKey, "")})
	return err
}

// close ends everything and removes what was written.
func (r *rig) close() {
	if r.store != nil {
		r.store.Close()
	}
	r.group.Close()
	_ = os.RemoveAll(r.dir)
}

// warnings returns the last lines of the logs that tell of trouble: after close they are gone.
func (r *rig) warnings() string {
	const most = 5
	var found []string
	paths, _ := filepath.Glob(filepath.Join(r.dir, "*.log"))
	for _, path := range paths {
		content, _ := os.ReadFile(path)
		var lines []string
		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, "WARN") || strings.Contains(line, "ERROR") || strings.Contains(line, "FATAL") || strings.Contains(line, "panic") {
				lines = append(lines, filepath.Base(path)+": "+line)
			}
		}
		found = append(found, lines[max(0, len(lines)-most):]...)
	}
	return strings.TrimSpace(strings.Join(found, ""))
}

// tenant is an account with its default app and a key.
type tenant struct {
	account   account.Account
	appID     uuid.UUID
	key       string
	bucketDir string // where the store keeps the bucket's objects
}

func (r *rig) tenant(ctx context.Context, name string, owners ...string) (tenant, error) {
	registry := account.NewRegistry(r.store, "bench", time.Now)
	made, err := registry.Ensure(ctx, account.Spec{Namespace: "bench", Name: name, Owners: owners, MaxStorage: 1 << 50, MaxUploadSize: 1 << 40})
	if err != nil {
		return tenant{}, err
	}
	if _, err := r.objects.Claim(ctx, made.Bucket, objectstore.Owner{AccountID: made.ID.String()}, false); err != nil {
		return tenant{}, err
	}
	if err := registry.SetBucketOwned(ctx, made.ID, true); err != nil {
		return tenant{}, err
	}
	apps, err := registry.SetApps(ctx, made.ID, nil)
	if err != nil {
		return tenant{}, err
	}
	token, _, err := registry.IssueKey(ctx, apps[0].ID, 1, 0)
	if err != nil {
		return tenant{}, err
	}
	dir := filepath.Join(r.dir, "s3", "objects", made.Bucket)
	if _, err := os.Stat(dir); err != nil {
		return tenant{}, fmt.Errorf("the store keeps its objects elsewhere: %w", err)
	}
	return tenant{account: made, appID: apps[0].ID, key: token.Reveal(), bucketDir: dir}, nil
}

// drop removes a folder of the tenant's bucket from the disk, so that what one round
// stored does not slow the next one down.
func (t tenant) drop(prefix string) error { return os.RemoveAll(filepath.Join(t.bucketDir, prefix)) }

// access is the environment of everything that reaches the stores.
func (r *rig) access() map[string]string {
	return map[string]string{
		"SERVICE_DATABASE_URL": r.server.URL(database), "SERVICE_S3_ENDPOINT": r.s3.Access.Endpoint, "SERVICE_S3_REGION": r.s3.Access.Region,
		"SERVICE_S3_ACCESS_KEY": r.s3.Access.AccessKey, "SERVICE_S3_SECRET_KEY": r.s3.Access.SecretKey, "SERVICE_LOG_LEVEL": r.LogLevel,
	}
}

func environment(settings map[string]string) []string {
	var env []string
	for name, value := range settings {
		env = append(env, name+"="+value)
	}
	return env
}

// endpoint is a server that is measured, with the way to it that keeps connections.
type endpoint struct {
	*servers.Process
	baseURL string
	key     string
	client  *http.Client
}

// serve starts a runtime for a tenant. name is what tables call it; settings are
// added to its environment.
func (r *rig) serve(ctx context.Context, name string, t tenant, settings map[string]string) (*endpoint, error) {
	binary, err := setup.FindBinary("mediastack-runtime")
	if err != nil {
		return nil, err
	}
	port, err := servers.FreePort()
	if err != nil {
		return nil, err
	}
	admin, err := servers.FreePort()
	if err != nil {
		return nil, err
	}
	e := &endpoint{baseURL: fmt.Sprintf("http://127.0.0.1:%d", port), key: t.key}
	env := r.access()
	maps.Copy(env, map[string]string{
		"SERVICE_RATE_LIMIT_KEY": "0", "SERVICE_RATE_LIMIT_IP": "0", "SERVICE_SECRET": r.secret, "SERVICE_BASE_URL": e.baseURL,
		"SERVICE_LISTEN": fmt.Sprintf("127.0.0.1:%d", port), "SERVICE_ADMIN_LISTEN": fmt.Sprintf("127.0.0.1:%d", admin),
	})
	maps.Copy(env, settings)
	e.Process, err = r.group.Start(ctx, servers.Spec{
		Name: "the runtime", Path: binary, Args: []string{"serve"}, LogFile: filepath.Join(r.dir, name+".log"), Env: environment(env),
		Ready: servers.Answers(fmt.Sprintf("http://127.0.0.1:%d/readyz", admin)),
	})
	if err != nil {
		return nil, err
	}
	r.watched[name] = e.PID()
	e.client, err = newClient()
	return e, err
}

// newClient keeps connections as the bare S3 client does, and asks for no compression.
func newClient() (*http.Client, error) {
	transport, err := minio.DefaultTransport(false)
	if err != nil {
		return nil, err
	}
	transport.MaxIdleConnsPerHost = 256
	return &http.Client{Transport: transport}, nil
}
