package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mediastack.dev/hack/provision"
	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/test/chaos/faults"
	"mediastack.dev/runtime/account"
)

const database = "chaos"

// draftTTL is after how long drafts are purged.
const draftTTL = 4 * time.Second

// tenant is an account with a key.
type tenant struct {
	provision.Tenant
	name       string
	maxStorage int64
	useWebP    bool
	later      bool // its derivatives are made after the upload
	undo       bool // its deletes can be undone
}

// replica is one runtime, which is started again at the same port after every kill.
type replica struct {
	*servers.Runtime
	name  string
	ready func(context.Context) error
	mu    sync.Mutex
}

// environment is what faults are injected into: PostgreSQL and S3, each behind a proxy, two
// runtimes and their tenants.
type environment struct {
	group *servers.Group
	dir   string

	db       *servers.Postgres
	adminURL string // past the proxy
	dbProxy  *faults.Proxy
	s3       *servers.S3
	s3Proxy  *faults.Proxy

	origin   *origin
	env      []string // settings of every command of the runtime
	replicas []*replica
	tenants  []*tenant
	// followers read the events of the tenants; none beside a program that writes no events.
	followers []*follower
	// receiver is that of a webhook; nil beside a program that sends none.
	receiver *receiver
	raw      *minio.Client
}

func startEnvironment(ctx context.Context, parent, former string) (*environment, error) {
	dir, err := servers.MakeDataDir(parent, "mediastack-chaos-")
	if err != nil {
		return nil, err
	}
	e := &environment{group: servers.NewGroup(), dir: dir, tenants: []*tenant{
		{name: "pictures", maxStorage: 500 << 20, useWebP: true, later: true, undo: true},
		{name: "files", maxStorage: 400 << 20, useWebP: true},
		{name: "small", maxStorage: 60 << 20, useWebP: true, later: true, undo: true}, // its cap is reached all the time
	}}
	if err := e.start(ctx, former); err != nil {
		e.close(false)
		return nil, err
	}
	return e, nil
}

// start starts the servers and the runtimes: two of this version, or one of it and one of the program former.
func (e *environment) start(ctx context.Context, former string) error {
	var err error
	// Volatile: processes are killed here, not the machine.
	if e.db, err = e.group.StartPostgres(ctx, servers.PostgresConfig{Dir: filepath.Join(e.dir, "postgres"), LogFile: filepath.Join(e.dir, "postgres.log"),
		TCP: true, Password: servers.RandomSecret(8), Volatile: true}); err != nil {
		return err
	}
	e.adminURL = e.db.AdminURL(database)
	if err := e.db.CreateDatabase(ctx, database); err != nil {
		return err
	}
	if e.s3, err = e.group.StartS3(ctx, servers.S3Config{Dir: filepath.Join(e.dir, "s3"), LogFile: filepath.Join(e.dir, "s3.log")}); err != nil {
		return err
	}
	access := e.s3.Access
	if e.raw, err = minio.New(strings.TrimPrefix(access.Endpoint, "http://"), &minio.Options{Region: access.Region,
		Creds: credentials.NewStaticV4(access.AccessKey, access.SecretKey, "")}); err != nil {
		return err
	}
	if err := e.provision(ctx, former == ""); err != nil {
		return fmt.Errorf("provision tenants: %w", err)
	}
	if e.dbProxy, err = faults.StartProxy(fmt.Sprintf("127.0.0.1:%d", e.db.Port)); err != nil {
		return err
	}
	if e.s3Proxy, err = faults.StartProxy(strings.TrimPrefix(access.Endpoint, "http://")); err != nil {
		return err
	}
	through, err := url.Parse(e.db.URL(database))
	if err != nil {
		return err
	}
	through.Host = e.dbProxy.String()
	access.Endpoint = "http://" + e.s3Proxy.String()
	e.env = append(servers.StoreSettings(through.String(), access),
		"SERVICE_LOG_LEVEL=warn",
		// What takes minutes and hours in production comes within a run here.
		"SERVICE_DRAFT_TTL="+draftTTL.String(), "SERVICE_UPLOAD_GRACE=0s", "SERVICE_PURGE_MAX_BACKOFF=1s", "SERVICE_PURGE_MAX_ATTEMPTS=100000", "SERVICE_PURGE_BATCH=20",
		"SERVICE_RENDITION_STALE_GRACE=2s",
	)
	if e.origin, err = startOrigin(e.dir, makePictures()); err != nil {
		return err
	}
	secret := servers.RandomSecret(32)
	var webhooks []string // a program of before does not know the setting
	if former == "" {
		webhooks = []string{"SERVICE_WEBHOOKS_ALLOW_NETWORKS=127.0.0.0/8"}
	}
	for i, name := range []string{"runtime A", "runtime B"} {
		runtime, err := e.group.StartRuntime(ctx, servers.RuntimeConfig{Name: name, Binary: []string{"", former}[i], LogDir: e.dir, Secret: secret, Stores: e.env,
			Env: slices.Concat([]string{"SERVICE_UPLOAD_LEASE=1m", "SERVICE_INSTANCE_TIMEOUT=10s", "SERVICE_RESUMABLE_TTL=1m", "SERVICE_DELETE_TIMEOUT=3s", "SERVICE_RENDITION_TIMEOUT=5s", "SERVICE_RENDITION_FAILURE_TTL=2s", "SERVICE_SHUTDOWN_TIMEOUT=20s"}, servers.Unlimited, e.origin.Settings, webhooks)})
		if err != nil {
			return err
		}
		one := &replica{Runtime: runtime, name: name, ready: runtime.Spec.Ready}
		runtime.Spec.Ready = nil // from now on, clients meet it as it comes up
		e.replicas = append(e.replicas, one)
	}
	return nil
}

// provision makes the accounts of the tenants, with journals if all programs write events.
func (e *environment) provision(ctx context.Context, journals bool) error {
	var specs []account.Spec
	for _, t := range e.tenants {
		spec := account.Spec{Namespace: "chaos", Name: t.name, MaxStorage: t.maxStorage, MaxUploadSize: 64 << 20}
		if t.undo {
			spec.Undo = account.Undo{Window: time.Hour, For: account.UndoEveryone}
		}
		if journals {
			spec.Journal = 24 * time.Hour
		}
		specs = append(specs, spec)
	}
	made, err := provision.Accounts(ctx, e.db.URL(database), e.s3.Access, specs...)
	for i := range made {
		e.tenants[i].Tenant = made[i]
	}
	return err
}

// kill ends a runtime as a crash would and starts it again at once. died is how it had ended by
// itself, if it had.
func (e *environment) kill(ctx context.Context, replica *replica) (died error, err error) {
	replica.mu.Lock()
	defer replica.mu.Unlock()
	died = replica.Err()
	replica.Kill()
	return died, replica.Restart(ctx)
}

func (r *replica) pid() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.PID()
}

// killPostgres kills PostgreSQL with its connections, and brings it back after a while.
func (e *environment) killPostgres(ctx context.Context, down time.Duration) error {
	e.db.Kill()
	faults.Sleep(ctx, down)
	return e.db.Restart(context.WithoutCancel(ctx))
}

func (e *environment) killS3(ctx context.Context, down time.Duration) error {
	e.s3.Kill()
	faults.Sleep(ctx, down)
	return e.s3.Restart(context.WithoutCancel(ctx))
}

// logLines returns what the runtimes logged of a request.
func (e *environment) logLines(requestID string) (lines []string) {
	for _, replica := range e.replicas {
		text, err := os.ReadFile(replica.Spec.LogFile)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, requestID) {
				lines = append(lines, replica.name+": "+strings.TrimSpace(line))
			}
		}
	}
	return lines
}

func (e *environment) binary() string { return e.replicas[0].Spec.Path }

// startPurge starts one pass of the purge.
func (e *environment) startPurge(ctx context.Context) (*servers.Process, error) {
	return e.group.Start(ctx, servers.Spec{Name: "the purge", Path: e.binary(), Args: []string{"purge"}, LogFile: filepath.Join(e.dir, "purge.log"), Env: e.env})
}

// call runs a command of the runtime to its end.
func (e *environment) call(ctx context.Context, env []string, args ...string) (code int, out string, err error) {
	cmd := exec.CommandContext(ctx, e.binary(), args...)
	cmd.Env = append(append([]string{"PATH=" + os.Getenv("PATH")}, e.env...), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if cmd.ProcessState == nil {
		return -1, "", err
	}
	if code = cmd.ProcessState.ExitCode(); code != 0 {
		err = fmt.Errorf("%s %s ended with %d: %s", servers.RuntimeBinary, strings.Join(args, " "), code, strings.TrimSpace(stderr.String()))
	} else {
		err = nil
	}
	return code, string(text), err
}

func (e *environment) close(keep bool) {
	for _, p := range []*faults.Proxy{e.dbProxy, e.s3Proxy} {
		if p != nil {
			p.Close()
		}
	}
	e.group.Close()
	if e.receiver != nil {
		e.receiver.CloseClientConnections()
		e.receiver.Close()
		e.receiver.store.Close()
	}
	if e.origin != nil {
		e.origin.CloseClientConnections()
		e.origin.Close()
	}
	if !keep {
		_ = os.RemoveAll(e.dir)
	}
}
