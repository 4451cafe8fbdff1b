package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/minio/minio-go/v7"

	"mediastack.dev/hack/servers"
)

// A baseline is what the service is compared with: this program again, in a process of its own,
// with these settings in its environment.
const (
	baselineEnv = "BENCH_BASELINE" // one of baselines
	listenEnv   = "BENCH_LISTEN"
)

// baselines are the handlers that this program can serve instead of measuring.
var baselines = map[string]func(ctx context.Context, mux *http.ServeMux) error{bare: mountBare, proxy: mountProxy, bareLoop: mountLoop}

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

// serveBaseline starts this program as one of the baselines. name is what tables call it.
func (env *environment) serveBaseline(ctx context.Context, name, baseline string, settings ...string) (*endpoint, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return env.serveProgram(ctx, name, program, "/ready", func(addr string) ([]string, []string) {
		return nil, append(settings, baselineEnv+"="+baseline, listenEnv+"="+addr)
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

// Settings of the proxy.
const (
	proxyEndpoint = "BENCH_PROXY_ENDPOINT"
	proxyAccess   = "BENCH_PROXY_ACCESS"
	proxySecret   = "BENCH_PROXY_SECRET"
)

// proxyHandler passes bodies between a client and the S3 store and does nothing else:
// no rows, no hash, no limits. On cores that all processes share, nothing that stands
// between client and store can be faster: it is the limit of the service, where the
// store itself is the limit of the machine.
type proxyHandler struct{ core *minio.Core }

func mountProxy(_ context.Context, mux *http.ServeMux) error {
	core, err := newS3Client(servers.S3Access{Endpoint: os.Getenv(proxyEndpoint), Region: "us-east-1", AccessKey: os.Getenv(proxyAccess), SecretKey: os.Getenv(proxySecret)})
	if err != nil {
		return err
	}
	h := &proxyHandler{core}
	mux.HandleFunc("PUT /{bucket}/{key...}", h.put)
	mux.HandleFunc("GET /{bucket}/{key...}", h.get)
	return nil
}

func (h *proxyHandler) put(w http.ResponseWriter, r *http.Request) {
	_, err := h.core.PutObject(r.Context(), r.PathValue("bucket"), r.PathValue("key"), r.Body, r.ContentLength, "", "", minio.PutObjectOptions{DisableContentSha256: true})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}

func (h *proxyHandler) get(w http.ResponseWriter, r *http.Request) {
	body, info, _, err := h.core.GetObject(r.Context(), r.PathValue("bucket"), r.PathValue("key"), minio.GetObjectOptions{})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer body.Close()
	w.Header().Set("Content-Length", strconv.FormatInt(info.Size, 10))
	_, _ = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{body}, make([]byte, 128<<10))
}

// serveProxy starts the proxy.
func (env *environment) serveProxy(ctx context.Context) (*endpoint, error) {
	access := env.s3.Access
	return env.serveBaseline(ctx, proxy, proxy, proxyEndpoint+"="+access.Endpoint, proxyAccess+"="+access.AccessKey, proxySecret+"="+access.SecretKey)
}
