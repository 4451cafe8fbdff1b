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

	"mediastack.dev/hack/servers"
)

// ServersEnv names the environment variable with the socket of a process that serves what Serve does.
// Test processes that have it use its servers; others start their own.
const ServersEnv = "MEDIASTACK_TEST_SERVERS"

// A GET of these paths starts a server, unless it runs, and returns its access.
const (
	postgresPath = "/postgres"
	versityPath  = "/versitygw"
	minioPath    = "/minio"
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
		Timeout: 2 * StartTimeout,
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

// Share returns a function that returns a server of another package which all test processes share: it attaches to the one of
// the process that ServersEnv names, or starts one, once. dir is a directory of this process. access is how another process
// uses the server, and served is for Serve in that process.
func Share[A, T any](path string, attach func(dir string, access A) (T, error), start func(ctx context.Context, group *servers.Group, dir string) (T, error), access func(T) A) (server func() (T, error), served func(*http.ServeMux)) {
	server = sharedOr(path, func(found A) (T, error) {
		e, err := shared()
		if err != nil {
			var none T
			return none, err
		}
		return attach(e.dir, found)
	}, func(ctx context.Context, e *environment) (T, error) { return start(ctx, e.group, e.dir) })
	return server, func(mux *http.ServeMux) { handle(mux, path, server, func(one T) any { return access(one) }) }
}

// Serve starts the servers of other test processes, one set for all: PostgreSQL, versitygw, MinIO, and
// those of other packages (Share). It listens on a unix socket, whose path goes into ServersEnv, and starts a server when the first process
// asks for it. The returned function stops all of them. It is for one process that outlives the tests
// (hack/testenv/run).
func Serve(more ...func(*http.ServeMux)) (socket string, stopAll func(), err error) {
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
	for _, served := range more {
		served(mux)
	}
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
