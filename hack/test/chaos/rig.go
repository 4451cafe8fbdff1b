package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/setup"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
)

const database = "crash"

// draftTTL is after how long drafts are purged.
const draftTTL = 4 * time.Second

// tenant is an account with a key.
type tenant struct {
	name       string
	maxStorage int64
	useWebP    bool

	id     string
	bucket string
	apiKey string
}

// replica is one runtime, which is started again at the same port after every kill.
type replica struct {
	name    string
	baseURL string
	spec    servers.Spec
	ready   func(context.Context) error
	mu      sync.Mutex
	process *servers.Process
}

// rig is the stack that is broken: PostgreSQL and S3, each behind a proxy, two runtimes
// and tenants, provisioned as the operator does it.
type rig struct {
	group *servers.Group
	dir   string

	dbConfig servers.PostgresConfig
	db       *servers.Postgres
	adminURL string // past the proxy
	dbProxy  *proxy
	s3Config servers.S3Config
	s3       *servers.S3
	s3Proxy  *proxy

	binary   string
	env      []string // of every program of ours
	replicas []*replica
	tenants  []*tenant
	raw      *minio.Client
}

func startRig(ctx context.Context, parent string) (*rig, error) {
	if parent != "" {
		if err := os.MkdirAll(parent, 0o755); err != nil {
			return nil, err
		}
		if !servers.PostgresCanReach(parent) {
			return nil, fmt.Errorf("the user postgres can't reach %s: choose another --dir", parent)
		}
	}
	dir, err := os.MkdirTemp(parent, "mediastack-crash-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the user postgres must pass
		return nil, err
	}
	r := &rig{group: servers.NewGroup(), dir: dir, tenants: []*tenant{
		{name: "pictures", maxStorage: 500 << 20, useWebP: true},
		{name: "files", maxStorage: 400 << 20},
		{name: "small", maxStorage: 60 << 20}, // its cap is reached all the time
	}}
	if err := r.start(ctx); err != nil {
		r.close(false)
		return nil, err
	}
	return r, nil
}

func (r *rig) start(ctx context.Context) error {
	var err error
	// Volatile: processes are killed here, not the machine.
	r.dbConfig = servers.PostgresConfig{Dir: filepath.Join(r.dir, "postgres"), LogFile: filepath.Join(r.dir, "postgres.log"),
		TCP: true, Password: servers.RandomSecret(8), Volatile: true}
	if r.db, err = r.group.StartPostgres(ctx, r.dbConfig); err != nil {
		return err
	}
	r.dbConfig.Port, r.adminURL = r.db.Port, r.db.AdminURL(database)
	if err := r.db.CreateDatabase(ctx, database); err != nil {
		return err
	}
	r.s3Config = servers.S3Config{Dir: filepath.Join(r.dir, "s3"), LogFile: filepath.Join(r.dir, "s3.log")}
	if r.s3, err = r.group.StartS3(ctx, r.s3Config); err != nil {
		return err
	}
	access := r.s3.Access
	r.s3Config.Port, r.s3Config.AccessKey, r.s3Config.SecretKey = r.s3.Port, access.AccessKey, access.SecretKey
	if r.raw, err = minio.New(strings.TrimPrefix(access.Endpoint, "http://"), &minio.Options{Region: access.Region,
		Creds: credentials.NewStaticV4(access.AccessKey, access.SecretKey, "")}); err != nil {
		return err
	}
	if err := r.provision(ctx); err != nil {
		return fmt.Errorf("provision tenants: %w", err)
	}
	if r.dbProxy, err = startProxy(fmt.Sprintf("127.0.0.1:%d", r.db.Port)); err != nil {
		return err
	}
	if r.s3Proxy, err = startProxy(strings.TrimPrefix(access.Endpoint, "http://")); err != nil {
		return err
	}
	through, err := url.Parse(r.db.URL(database))
	if err != nil {
		return err
	}
	through.Host = r.dbProxy.String()
	r.env = []string{
		"SERVICE_DATABASE_URL=" + through.String(), "SERVICE_S3_ENDPOINT=http://" + r.s3Proxy.String(), "SERVICE_S3_REGION=" + access.Region,
		"SERVICE_S3_ACCESS_KEY=" + access.AccessKey, "SERVICE_S3_SECRET_KEY=" + access.SecretKey,
		"SERVICE_LOG_LEVEL=warn",
		// What takes minutes and hours in production comes within a run here.
		"SERVICE_DRAFT_TTL=" + draftTTL.String(), "SERVICE_UPLOAD_GRACE=0s", "SERVICE_PURGE_MAX_BACKOFF=1s", "SERVICE_PURGE_MAX_ATTEMPTS=100000", "SERVICE_PURGE_BATCH=20",
	}
	if r.binary, err = setup.FindBinary("mediastack-runtime"); err != nil {
		return err
	}
	secret := servers.RandomSecret(32)
	for _, name := range []string{"runtime A", "runtime B"} {
		one, err := r.newReplica(name, secret)
		if err != nil {
			return err
		}
		if one.process, err = r.group.Start(ctx, one.spec); err != nil {
			return err
		}
		one.ready, one.spec.Ready = one.spec.Ready, nil // from now on, clients meet it as it comes up
		r.replicas = append(r.replicas, one)
	}
	return nil
}

func (r *rig) newReplica(name, secret string) (*replica, error) {
	port, err := servers.FreePort()
	if err != nil {
		return nil, err
	}
	admin, err := servers.FreePort()
	if err != nil {
		return nil, err
	}
	one := &replica{name: name, baseURL: fmt.Sprintf("http://127.0.0.1:%d", port)}
	one.spec = servers.Spec{
		Name: name, Path: r.binary, Args: []string{"serve"}, LogFile: filepath.Join(r.dir, strings.ReplaceAll(name, " ", "-")+".log"),
		Env: append([]string{
			"SERVICE_SECRET=" + secret, "SERVICE_BASE_URL=" + one.baseURL, "SERVICE_UPLOAD_LEASE=1m", "SERVICE_RESUMABLE_TTL=1m", "SERVICE_DELETE_TIMEOUT=3s",
			"SERVICE_RATE_LIMIT_KEY=0", "SERVICE_RATE_LIMIT_IP=0", "SERVICE_SHUTDOWN_TIMEOUT=20s",
			fmt.Sprintf("SERVICE_LISTEN=127.0.0.1:%d", port), fmt.Sprintf("SERVICE_ADMIN_LISTEN=127.0.0.1:%d", admin),
		}, r.env...),
		Grace: 30 * time.Second,
		Ready: servers.Answers(fmt.Sprintf("http://127.0.0.1:%d/readyz", admin)),
	}
	return one, nil
}

func (r *rig) provision(ctx context.Context) error {
	config := postgres.Config{DatabaseURL: r.db.URL(database)}
	if err := postgres.Migrate(ctx, config, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	store, err := postgres.Open(ctx, config)
	if err != nil {
		return err
	}
	defer store.Close()
	access := r.s3.Access
	objects, err := objectstore.New(objectstore.Config{Endpoint: access.Endpoint, Region: access.Region, AccessKey: access.AccessKey, SecretKey: access.SecretKey})
	if err != nil {
		return err
	}
	registry := account.NewRegistry(store, "crash", time.Now)
	for _, t := range r.tenants {
		a, err := registry.Ensure(ctx, account.Spec{Namespace: "crash", Name: t.name, MaxStorage: t.maxStorage, MaxUploadSize: 64 << 20})
		if err != nil {
			return err
		}
		if _, err := objects.Claim(ctx, a.Bucket, objectstore.Owner{AccountID: a.ID.String()}, false); err != nil {
			return err
		}
		if err := registry.SetBucketOwned(ctx, a.ID, true); err != nil {
			return err
		}
		apps, err := registry.SetApps(ctx, a.ID, nil)
		if err != nil {
			return err
		}
		token, _, err := registry.IssueKey(ctx, apps[0].ID, 1, 0)
		if err != nil {
			return err
		}
		t.id, t.bucket, t.apiKey = a.ID.String(), a.Bucket, token.Reveal()
	}
	return nil
}

// kill ends a runtime as a crash would and starts it again at once. It gives how it
// had ended by itself, if it had.
func (r *rig) kill(ctx context.Context, one *replica) (died error, err error) {
	one.mu.Lock()
	defer one.mu.Unlock()
	died = one.process.Err()
	one.process.Kill()
	one.process, err = r.group.Start(ctx, one.spec)
	return died, err
}

func (one *replica) pid() int {
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.process.PID()
}

// killPostgres kills PostgreSQL with its connections, and brings it back after a while.
func (r *rig) killPostgres(ctx context.Context, down time.Duration) (err error) {
	r.db.Kill()
	pause(ctx, down)
	// Its port must be given back by those that were connected.
	r.db, err = r.group.StartPostgres(context.WithoutCancel(ctx), r.dbConfig)
	return err
}

func (r *rig) killS3(ctx context.Context, down time.Duration) (err error) {
	r.s3.Kill()
	pause(ctx, down)
	r.s3, err = r.group.StartS3(context.WithoutCancel(ctx), r.s3Config)
	return err
}

// logLines returns what the runtimes logged of a request.
func (r *rig) logLines(requestID string) (lines []string) {
	for _, one := range r.replicas {
		text, err := os.ReadFile(one.spec.LogFile)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, requestID) {
				lines = append(lines, one.name+": "+strings.TrimSpace(line))
			}
		}
	}
	return lines
}

// startPurge starts one pass of the purge.
func (r *rig) startPurge(ctx context.Context) (*servers.Process, error) {
	return r.group.Start(ctx, servers.Spec{Name: "the purge", Path: r.binary, Args: []string{"purge"}, LogFile: filepath.Join(r.dir, "purge.log"), Env: r.env})
}

// call runs a command of the runtime to its end.
func (r *rig) call(ctx context.Context, env []string, args ...string) (code int, out string, err error) {
	cmd := exec.CommandContext(ctx, r.binary, args...)
	cmd.Env = append(append([]string{"PATH=" + os.Getenv("PATH")}, r.env...), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if cmd.ProcessState == nil {
		return -1, "", err
	}
	if code = cmd.ProcessState.ExitCode(); code != 0 {
		err = fmt.Errorf("%s %s ended with %d: %s", filepath.Base(r.binary), strings.Join(args, " "), code, strings.TrimSpace(stderr.String()))
	} else {
		err = nil
	}
	return code, string(text), err
}

func (r *rig) close(keep bool) {
	for _, p := range []*proxy{r.dbProxy, r.s3Proxy} {
		if p != nil {
			p.close()
		}
	}
	r.group.Close()
	if !keep {
		_ = os.RemoveAll(r.dir)
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
