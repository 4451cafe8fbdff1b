package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/minio/minio-go/v7"

	"mediastack.dev/hack/servers"
)

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
	return env.serveBaseline(ctx, proxy, proxyEndpoint+"="+access.Endpoint, proxyAccess+"="+access.AccessKey, proxySecret+"="+access.SecretKey)
}
