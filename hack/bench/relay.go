package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Settings of the relay.
const (
	relayEndpoint = "BENCH_RELAY_ENDPOINT"
	relayAccess   = "BENCH_RELAY_ACCESS"
	relaySecret   = "BENCH_RELAY_SECRET"
)

// relayHandler passes bodies between a client and the S3 store and does nothing else:
// no rows, no hash, no limits. On cores that everybody shares, nothing that stands
// between client and store can be faster: it is the limit of the service, where the
// store itself is the limit of the machine.
type relayHandler struct{ core *minio.Core }

func mountRelay(_ context.Context, mux *http.ServeMux) error {
	transport, err := minio.DefaultTransport(false)
	if err != nil {
		return err
	}
	transport.MaxIdleConnsPerHost = 256
	core, err := minio.NewCore(strings.TrimPrefix(os.Getenv(relayEndpoint), "http://"), &minio.Options{Region: "us-east-1", Transport: transport,
		Creds: credentials.NewStaticV4(os.Getenv(relayAccess), os.Getenv(relaySecret), "")})
	if err != nil {
		return err
	}
	h := &relayHandler{core}
	mux.HandleFunc("PUT /{bucket}/{key...}", h.put)
	mux.HandleFunc("GET /{bucket}/{key...}", h.get)
	return nil
}

func (h *relayHandler) put(w http.ResponseWriter, r *http.Request) {
	_, err := h.core.PutObject(r.Context(), r.PathValue("bucket"), r.PathValue("key"), r.Body, r.ContentLength, "", "", minio.PutObjectOptions{DisableContentSha256: true})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}

func (h *relayHandler) get(w http.ResponseWriter, r *http.Request) {
	body, info, _, err := h.core.GetObject(r.Context(), r.PathValue("bucket"), r.PathValue("key"), minio.GetObjectOptions{})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer body.Close()
	w.Header().Set("Content-Length", strconv.FormatInt(info.Size, 10))
	_, _ = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{body}, make([]byte, 128<<10))
}

// serveRelay starts the relay.
func (r *rig) serveRelay(ctx context.Context) (*endpoint, error) {
	return r.start(ctx, relay, map[string]string{relayEndpoint: r.s3.Access.Endpoint, relayAccess: r.s3.Access.AccessKey, relaySecret: r.s3.Access.SecretKey})
}
