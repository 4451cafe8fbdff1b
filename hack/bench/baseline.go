package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"mediastack.dev/hack/servers"
)

// A baseline is what the service is compared with: this program again, in a process of its own,
// with these settings in its environment.
const (
	baselineEnv = "BENCH_BASELINE" // one of baselines
	listenEnv   = "BENCH_LISTEN"
)

// baselines are the handlers that this program can serve instead of measuring.
var baselines = map[string]func(ctx context.Context, mux *http.ServeMux) error{bare: mountBare, proxy: mountProxy, bareSDK: mountBareSDK, bareLoop: mountLoop}

// runBaseline serves a baseline if this process was started to, and then does not return.
func runBaseline() {
	mount, ok := baselines[os.Getenv(baselineEnv)]
	if !ok {
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(http.ResponseWriter, *http.Request) {})
	err := mount(context.Background(), mux)
	if err == nil {
		err = (&http.Server{Addr: os.Getenv(listenEnv), Handler: mux, ReadHeaderTimeout: 10 * time.Second}).ListenAndServe()
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

// serveBaseline starts this program as a baseline.
func (env *environment) serveBaseline(ctx context.Context, name string, settings ...string) (*endpoint, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return env.serveProgram(ctx, name, program, "/ready", func(addr string) ([]string, []string) {
		return nil, append(settings, baselineEnv+"="+name, listenEnv+"="+addr)
	})
}

// serveProgram starts another server on a free port, and waits until it answers a path with 200.
func (env *environment) serveProgram(ctx context.Context, name, program, ready string, command func(addr string) (args, settings []string)) (*endpoint, error) {
	port, err := servers.FreePort()
	if err != nil {
		return nil, err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	args, settings := command(addr)
	process, err := env.group.Start(ctx, servers.Spec{Name: name, Path: program, Args: args, Env: settings,
		LogFile: filepath.Join(env.dir, name+".log"), Ready: servers.Answers("http://" + addr + ready)})
	if err != nil {
		return nil, err
	}
	return env.endpoint(name, process, "http://"+addr, "")
}
