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

// What the service is compared with is this program again, in a process of its own,
// with these in its environment.
const (
	playEnv   = "BENCH_PLAY" // one of roles
	listenEnv = "BENCH_LISTEN"
)

// roles are the handlers that this program can serve instead of measuring.
var roles = map[string]func(ctx context.Context, mux *http.ServeMux) error{bare: mountBare, relay: mountRelay, bareSDK: mountBareSDK}

// play serves a role, if this process was started to, and then does not return.
func play() {
	mount, ok := roles[os.Getenv(playEnv)]
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

// start starts this program in a role.
func (r *rig) start(ctx context.Context, role string, settings map[string]string) (*endpoint, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	port, err := servers.FreePort()
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	e := &endpoint{baseURL: "http://" + address}
	e.Process, err = r.group.Start(ctx, servers.Spec{
		Name: "the " + role, Path: program, LogFile: filepath.Join(r.dir, role+".log"),
		Env:   append(environment(settings), playEnv+"="+role, listenEnv+"="+address),
		Ready: servers.Answers(e.baseURL + "/ready"),
	})
	if err != nil {
		return nil, err
	}
	r.watched[role] = e.PID()
	e.client, err = newClient()
	return e, err
}
