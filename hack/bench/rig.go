package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mediastack.dev/hack/setup"
	"mediastack.dev/hack/stack"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
)

// rig is the stack that is measured, without Kubernetes: one tenant, provisioned as
// the operator does it, and one runtime.
type rig struct {
	group   *stack.Group
	dir     string
	runtime *stack.Process
	baseURL string
	apiKey  string
	bucket  string
	bare    *minio.Client
}

func startRig(ctx context.Context, parent string) (*rig, error) {
	if parent != "" && !stack.PostgresCanReach(parent) {
		return nil, fmt.Errorf("the user postgres can't reach %s: choose another --dir", parent)
	}
	dir, err := os.MkdirTemp(parent, "mediastack-bench-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the user postgres must pass
		return nil, err
	}
	r := &rig{group: stack.NewGroup(), dir: dir}
	if err := r.start(ctx); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *rig) start(ctx context.Context) error {
	server, err := r.group.StartPostgres(ctx, stack.PostgresConfig{Dir: filepath.Join(r.dir, "postgres"), LogFile: filepath.Join(r.dir, "postgres.log")})
	if err != nil {
		return err
	}
	if err := server.CreateDatabase(ctx, "bench"); err != nil {
		return err
	}
	s3, err := r.group.StartS3(ctx, stack.S3Config{Dir: filepath.Join(r.dir, "s3"), LogFile: filepath.Join(r.dir, "s3.log")})
	if err != nil {
		return err
	}
	database := postgres.Config{DatabaseURL: server.URL("bench")}
	if err := r.provision(ctx, database, s3.Access); err != nil {
		return fmt.Errorf("provision a tenant: %w", err)
	}
	if err := r.startRuntime(ctx, database.DatabaseURL, s3.Access); err != nil {
		return err
	}
	address := strings.TrimPrefix(s3.Access.Endpoint, "http://")
	transport, err := minio.DefaultTransport(false)
	if err != nil {
		return err
	}
	transport.MaxIdleConnsPerHost = 256 // as the runtime's own client keeps them
	r.bare, err = minio.New(address, &minio.Options{Region: s3.Access.Region, Transport: transport,
		Creds: credentials.NewStaticV4(s3.Access.AccessKey, s3.Access.SecretKey, "")})
	return err
}

func (r *rig) provision(ctx context.Context, database postgres.Config, access stack.S3Access) error {
	if err := postgres.Migrate(ctx, database, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	store, err := postgres.Open(ctx, database)
	if err != nil {
		return err
	}
	defer store.Close()
	objects, err := objectstore.New(objectstore.Config{Endpoint: access.Endpoint, Region: access.Region, AccessKey: access.AccessKey, SecretKey: access.SecretKey})
	if err != nil {
		return err
	}
	registry := account.NewRegistry(store, "bench", time.Now)
	tenant, err := registry.Ensure(ctx, account.Spec{Namespace: "bench", Name: "bench", MaxStorage: 1 << 40, MaxUploadSize: 1 << 30})
	if err != nil {
		return err
	}
	if _, err := objects.Claim(ctx, tenant.Bucket, objectstore.Owner{AccountID: tenant.ID.String()}, false); err != nil {
		return err
	}
	if err := registry.SetBucketOwned(ctx, tenant.ID, true); err != nil {
		return err
	}
	apps, err := registry.SetApps(ctx, tenant.ID, nil)
	if err != nil {
		return err
	}
	token, _, err := registry.IssueKey(ctx, apps[0].ID, 1, 0)
	r.apiKey, r.bucket = token.Reveal(), tenant.Bucket
	return err
}

func (r *rig) startRuntime(ctx context.Context, databaseURL string, access stack.S3Access) error {
	binary, err := setup.FindBinary("mediastack-runtime")
	if err != nil {
		return err
	}
	port, err := stack.FreePort()
	if err != nil {
		return err
	}
	admin, err := stack.FreePort()
	if err != nil {
		return err
	}
	r.baseURL = fmt.Sprintf("http://127.0.0.1:%d", port)
	r.runtime, err = r.group.Start(ctx, stack.Spec{
		Name: "the runtime", Path: binary, Args: []string{"serve"}, LogFile: filepath.Join(r.dir, "runtime.log"),
		Env: []string{
			"SERVICE_DATABASE_URL=" + databaseURL, "SERVICE_S3_ENDPOINT=" + access.Endpoint, "SERVICE_S3_REGION=" + access.Region,
			"SERVICE_S3_ACCESS_KEY=" + access.AccessKey, "SERVICE_S3_SECRET_KEY=" + access.SecretKey,
			"SERVICE_RATE_KEY=0", "SERVICE_RATE_ADDRESS=0", "SERVICE_SECRET=" + stack.RandomSecret(32), "SERVICE_BASE_URL=" + r.baseURL, "SERVICE_LOG_LEVEL=warn",
			fmt.Sprintf("SERVICE_LISTEN=127.0.0.1:%d", port), fmt.Sprintf("SERVICE_ADMIN_LISTEN=127.0.0.1:%d", admin),
		},
		Ready: stack.Answers(fmt.Sprintf("http://127.0.0.1:%d/readyz", admin)),
	})
	return err
}

// peakMemory is the most memory that the runtime had resident so far, in MiB.
func (r *rig) peakMemory() (float64, error) {
	status, err := os.Open(fmt.Sprintf("/proc/%d/status", r.runtime.PID()))
	if err != nil {
		return 0, err
	}
	defer func() { _ = status.Close() }()
	lines := bufio.NewScanner(status)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("the kernel does not say how much memory the runtime had")
}

func (r *rig) close() {
	r.group.Close()
	_ = os.RemoveAll(r.dir)
}
