package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/rest"

	"mediastack.dev/hack/servers"
)

// ServersEnv names the environment variable with the socket of a process that serves what Serve does.
// Test processes that have it use its servers; others start their own.
const ServersEnv = "MEDIASTACK_TEST_SERVERS"

// A GET of these paths starts a server, unless it runs, and returns its access.
const (
	postgresPath   = "/postgres"
	versityPath    = "/versitygw"
	minioPath      = "/minio"
	kubernetesPath = "/kubernetes"
)

// sharedOr returns a function that attaches to a server of the process that ServersEnv names, or
// starts one if there is no such process. It does so once.
func sharedOr[A, T any](path string, attach func(access A) (T, error), start func(ctx context.Context, e *environment) (T, error)) func() (T, error) {
	own := once(start)
	return sync.OnceValues(func() (T, error) {
		socket := os.Getenv(ServersEnv)
		if socket == "" {
			return own()
		}
		access, err := ask[A](socket, path)
		if err != nil {
			var none T
			return none, fmt.Errorf("%s: %w", ServersEnv, err)
		}
		return attach(access)
	})
}

// ask returns what the process behind the socket answers.
func ask[A any](socket, path string) (access A, err error) {
	client := http.Client{
		Timeout: 2 * startTimeout,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
	}
	response, err := client.Get("http://servers" + path)
	if err != nil {
		return access, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return access, err
	}
	if response.StatusCode != http.StatusOK {
		return access, errors.New(string(body))
	}
	return access, json.Unmarshal(body, &access)
}

// postgresAccess is how another process uses the shared PostgreSQL server.
type postgresAccess struct{ SocketDir string }

// attachPostgres returns the server of another process.
func attachPostgres(access postgresAccess) (*servers.Postgres, error) {
	return servers.AttachPostgres(access.SocketDir), nil
}

func attachStore(access servers.S3Access) (servers.S3Access, error) { return access, nil }

// kubernetesAccess is how another process uses the shared control plane.
type kubernetesAccess struct {
	Host, Token string
	Authority   []byte
}

// attachKubernetes returns the control plane of another process. Its kubeconfigs are files of this one.
func attachKubernetes(access kubernetesAccess) (*servers.Kubernetes, error) {
	e, err := shared()
	if err != nil {
		return nil, err
	}
	dir := e.path("kube")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return servers.AttachKubernetes(&rest.Config{
		Host: access.Host, BearerToken: access.Token, TLSClientConfig: rest.TLSClientConfig{CAData: access.Authority},
	}, dir)
}

// Serve provides test processes with one set of servers: PostgreSQL, versitygw, MinIO, and a control plane. It
// listens on a unix socket, whose path goes into ServersEnv, and starts a server when the first process
// asks for it. The returned function stops all of them. It is for one process that outlives the tests
// (hack/testenv/run).
func Serve() (socket string, stopAll func(), err error) {
	e, err := shared()
	if err != nil {
		return "", nil, err
	}
	socket = filepath.Join(e.dir, "servers.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	handle(mux, postgresPath, postgres, func(p *servers.Postgres) any { return postgresAccess{SocketDir: p.SocketDir()} })
	handle(mux, versityPath, versity, func(access servers.S3Access) any { return access })
	handle(mux, minioPath, minio, func(access servers.S3Access) any { return access })
	handle(mux, kubernetesPath, kubernetes, func(k *servers.Kubernetes) any {
		return kubernetesAccess{Host: k.Config.Host, Token: k.Config.BearerToken, Authority: k.Config.CAData}
	})
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(listener) }()
	return socket, func() { _ = server.Close(); stop() }, nil
}

func handle[T any](mux *http.ServeMux, path string, start func() (T, error), access func(T) any) {
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
		server, err := start()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(access(server))
	})
}
