package servers

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mediastack.dev/hack/setup"
)

// RuntimeBinary is the name of the product's runtime.
const RuntimeBinary = "mediastack-runtime"

// RuntimeConfig configures the product's runtime.
type RuntimeConfig struct {
	// Name is what messages and the log file call it; "runtime" when empty.
	Name string
	// Binary is the path of the program; the one that was built when empty.
	Binary string
	// LogDir is the directory that takes the log.
	LogDir string
	// Port is the TCP port; zero chooses a free one.
	Port int
	// BaseURL is how clients reach it; its own address when empty.
	BaseURL string
	// Secret is the server secret, which replicas share; a random one is made when it is empty.
	Secret string
	// Stores are the settings that reach PostgreSQL and S3: see StoreSettings.
	Stores []string
	// Env are more settings, which override the others.
	Env []string
}

// Runtime is a running runtime.
type Runtime struct {
	*Process
	// Spec starts it again, at the same address.
	Spec Spec
	// Addr is its address: host and port.
	Addr string
	// BaseURL is how clients reach it.
	BaseURL string

	group *Group
}

// StoreSettings returns the settings that let every command of the runtime reach its stores.
func StoreSettings(databaseURL string, access S3Access) []string {
	return []string{
		"SERVICE_DATABASE_URL=" + databaseURL, "SERVICE_S3_ENDPOINT=" + access.Endpoint, "SERVICE_S3_REGION=" + access.Region,
		"SERVICE_S3_ACCESS_KEY=" + access.AccessKey, "SERVICE_S3_SECRET_KEY=" + access.SecretKey,
	}
}

// Unlimited are settings without limits on the requests of a key or an address: benchmarks and chaos
// runs send many from one.
var Unlimited = []string{"SERVICE_RATE_LIMIT_KEY=0", "SERVICE_RATE_LIMIT_IP=0", "SERVICE_RATE_LIMIT_PICTURES=0"}

// StartRuntime starts the runtime that make has built, and waits until it is ready.
func (g *Group) StartRuntime(ctx context.Context, config RuntimeConfig) (*Runtime, error) {
	binary, err := config.Binary, error(nil)
	if binary == "" {
		binary, err = setup.FindBinary(RuntimeBinary)
	}
	if err != nil {
		return nil, err
	}
	if config.Name == "" {
		config.Name = "runtime"
	}
	if config.Secret == "" {
		config.Secret = RandomSecret(32)
	}
	port, err := ChoosePort(config.Port)
	if err != nil {
		return nil, err
	}
	admin, err := FreePort()
	if err != nil {
		return nil, err
	}
	r := &Runtime{Addr: loopback(port), BaseURL: config.BaseURL, group: g}
	if r.BaseURL == "" {
		r.BaseURL = "http://" + r.Addr
	}
	r.Spec = Spec{
		Name: config.Name, Path: binary, Args: []string{"serve"}, LogFile: filepath.Join(config.LogDir, strings.ReplaceAll(config.Name, " ", "-")+".log"),
		Env: slices.Concat(config.Stores, []string{
			"SERVICE_SECRET=" + config.Secret, "SERVICE_BASE_URL=" + r.BaseURL, "SERVICE_LISTEN=" + r.Addr, "SERVICE_ADMIN_LISTEN=" + loopback(admin),
			"SERVICE_DRAIN_DELAY=0s", // no load balancer has to notice
		}, config.Env),
		Grace: 30 * time.Second,
		Ready: Answers("http://" + loopback(admin) + "/readyz"),
	}
	r.Process, err = g.Start(ctx, r.Spec)
	return r, err
}

// Restart starts a runtime that has ended again, at the same address, and waits until it is ready.
func (r *Runtime) Restart(ctx context.Context) (err error) {
	r.Process, err = r.group.Start(ctx, r.Spec)
	return err
}
