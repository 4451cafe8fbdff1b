package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mediastack.dev/hack/provision"
	"mediastack.dev/hack/servers"
	"mediastack.dev/runtime/account"
)

// environment is what is measured, without Kubernetes: PostgreSQL and an S3 store. Benchmarks add
// tenants and runtimes.
type environment struct {
	options
	group   *servers.Group
	dir     string
	server  *servers.Postgres
	s3      *servers.S3
	bare    *minio.Core
	secret  string
	watched map[string]int // process ids by name, for CPU time
	// settings are those of PostgreSQL that a benchmark needs.
	settings map[string]string
}

const database = "bench"

func startEnvironment(ctx context.Context, o options, settings map[string]string) (*environment, error) {
	dir, err := servers.MakeDataDir(o.Dir, "mediastack-bench-")
	if err != nil {
		return nil, err
	}
	env := &environment{options: o, group: servers.NewGroup(), dir: dir, secret: servers.RandomSecret(32), watched: map[string]int{}, settings: settings}
	if err := env.start(ctx); err != nil {
		env.close()
		return nil, err
	}
	return env, nil
}

func (env *environment) start(ctx context.Context) (err error) {
	env.server, err = env.group.StartPostgres(ctx, servers.PostgresConfig{
		Dir: filepath.Join(env.dir, "postgres"), LogFile: filepath.Join(env.dir, "postgres.log"), Volatile: env.volatile,
		Settings: env.settings,
	})
	if err != nil {
		return err
	}
	if err := env.server.CreateDatabase(ctx, database); err != nil {
		return err
	}
	if env.s3, err = env.group.StartS3(ctx, servers.S3Config{Dir: filepath.Join(env.dir, "s3"), LogFile: filepath.Join(env.dir, "s3.log")}); err != nil {
		return err
	}
	env.watched[postgres], env.watched[store] = env.server.PID(), env.s3.PID()
	env.bare, err = newS3Client(env.s3.Access)
	return err
}

// newS3Client makes a client that keeps as many connections as the runtime's own.
func newS3Client(access servers.S3Access) (*minio.Core, error) {
	client, err := newClient()
	if err != nil {
		return nil, err
	}
	return minio.NewCore(strings.TrimPrefix(access.Endpoint, "http://"), &minio.Options{Region: access.Region, Transport: client.Transport,
		Creds: credentials.NewStaticV4(access.AccessKey, access.SecretKey, "")})
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

// close ends everything and removes what was written.
func (env *environment) close() {
	env.group.Close()
	_ = os.RemoveAll(env.dir)
}

// warnings returns the last lines of the logs that report trouble, which close removes.
func (env *environment) warnings() string {
	const most = 5
	var found []string
	paths, _ := filepath.Glob(filepath.Join(env.dir, "*.log"))
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
	provision.Tenant
	bucketDir string // where the store keeps the bucket's objects
}

func (env *environment) tenant(ctx context.Context, name string) (tenant, error) {
	made, err := env.tenants(ctx, name)
	if err != nil {
		return tenant{}, err
	}
	return made[0], nil
}

// tenants makes a tenant of each name.
func (env *environment) tenants(ctx context.Context, names ...string) ([]tenant, error) {
	specs := make([]account.Spec, len(names))
	for i, name := range names {
		specs[i] = account.Spec{Namespace: "bench", Name: name, MaxStorage: 1 << 50, MaxUploadSize: 1 << 40, KeepLocation: true}
	}
	made, err := provision.Accounts(ctx, env.server.URL(database), env.s3.Access, specs...)
	if err != nil {
		return nil, err
	}
	tenants := make([]tenant, len(made))
	for i, one := range made {
		tenants[i] = tenant{Tenant: one, bucketDir: filepath.Join(env.dir, "s3", "objects", one.Account.Bucket)}
		if _, err := os.Stat(tenants[i].bucketDir); err != nil {
			return nil, fmt.Errorf("the store keeps its objects elsewhere: %w", err)
		}
	}
	return tenants, nil
}

// removeObjects removes a directory of the tenant's bucket from the disk, so that what one round
// stored does not slow the next one down. A request that the end of a round cut off may still write:
// a directory that got a file meanwhile is removed again.
func (t tenant) removeObjects(prefix string) error {
	const most = 1000
	var err error
	for range most {
		if err = os.RemoveAll(filepath.Join(t.bucketDir, prefix)); !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
	}
	return err
}

// keyOf returns the key of the object that begins with prefix.
func (t tenant) keyOf(prefix string) string {
	found, err := filepath.Glob(filepath.Join(t.bucketDir, prefix) + "*")
	if err != nil || len(found) == 0 {
		return prefix // the caller misses it
	}
	return strings.TrimPrefix(found[0], t.bucketDir+"/")
}

// storeSettings are the settings of everything that reaches the stores.
func (env *environment) storeSettings() []string {
	return append(servers.StoreSettings(env.server.URL(database), env.s3.Access), "SERVICE_LOG_LEVEL="+env.LogLevel)
}

// endpoint is a server that is measured, with a client that keeps connections to it.
type endpoint struct {
	*servers.Process
	baseURL string
	key     string
	client  *http.Client
}

// endpoint makes the endpoint of a process, which name is what tables call.
func (env *environment) endpoint(name string, process *servers.Process, baseURL, key string) (*endpoint, error) {
	env.watched[name] = process.PID()
	client, err := newClient()
	return &endpoint{Process: process, baseURL: baseURL, key: key, client: client}, err
}

// changed returns the endpoint with another client, whose transport was changed.
func (e *endpoint) changed(change func(*http.Transport)) *endpoint {
	transport := e.client.Transport.(*http.Transport).Clone() // see newClient
	change(transport)
	other := *e
	other.client = &http.Client{Transport: transport}
	return &other
}

// memoryLimit is that of the runtime in the chart.
const memoryLimit = "768MiB"

// serve starts a runtime for a tenant. name is what tables call it; settings are
// added to its environment.
func (env *environment) serve(ctx context.Context, name string, t tenant, settings ...string) (*endpoint, error) {
	return env.serveConfig(ctx, t, servers.RuntimeConfig{Name: name, Env: settings})
}

// serveConfig starts a runtime without rate limits at the stores of the environment.
func (env *environment) serveConfig(ctx context.Context, t tenant, config servers.RuntimeConfig) (*endpoint, error) {
	config.LogDir, config.Secret, config.Stores = env.dir, env.secret, env.storeSettings()
	config.Env = slices.Concat([]string{"GOMEMLIMIT=" + memoryLimit}, config.Env, servers.Unlimited)
	runtime, err := env.group.StartRuntime(ctx, config)
	if err != nil {
		return nil, err
	}
	return env.endpoint(config.Name, runtime.Process, runtime.BaseURL, t.APIKey)
}

// serveTenant makes a tenant, and starts a runtime for it.
func (b *bench) serveTenant(ctx context.Context, name string) (tenant, *endpoint, error) {
	t, err := b.env.tenant(ctx, name)
	if err != nil {
		return tenant{}, nil, err
	}
	e, err := b.env.serve(ctx, service, t)
	return t, e, err
}
