package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/splice"
)

// directGet sends the request for an object as one signed request to the transport. minio-go needs
// a third of the processor time of a download of 100 KB for what a download does not use. Whatever
// is not a success, minio-go handles as it does for all other requests: redirects, retries, errors.
type directGet struct {
	transport http.RoundTripper
	endpoint  url.URL
	// host is that of requests: minio-go replaces the endpoint of AWS by that of the region.
	host   string
	keys   func() (credentials.Value, bool)
	signer *requestSigner
	now    func() time.Time
}

// newDirectGet returns nil if minio-go has to find the region of each bucket.
func newDirectGet(cfg Config, endpoint *url.URL, transport http.RoundTripper, keys func() (credentials.Value, bool)) (*directGet, error) {
	if cfg.Region == "" {
		return nil, nil
	}
	host, err := requestHost(cfg.Region, endpoint)
	if err != nil {
		return nil, err
	}
	return &directGet{transport: transport, endpoint: *endpoint, host: host, keys: keys, signer: &requestSigner{region: cfg.Region}, now: time.Now}, nil
}

// requestHost returns the host to which minio-go sends requests, without a bucket. It sends none.
func requestHost(region string, endpoint *url.URL) (string, error) {
	client, err := minio.New(endpoint.Host, &minio.Options{Creds: credentials.NewStaticV4("id", "key", ""), Secure: endpoint.Scheme == "https", Region: region})
	if err != nil {
		return "", fmt.Errorf("make the S3 client: %w", err)
	}
	presigned, err := client.Presign(context.Background(), http.MethodGet, "bucket", "key", time.Minute, nil)
	if err != nil {
		return "", fmt.Errorf("find the host of the S3 endpoint: %w", err)
	}
	if s3utils.IsVirtualHostSupported(*endpoint, "bucket") {
		return strings.TrimPrefix(presigned.Host, "bucket."), nil
	}
	return presigned.Host, nil
}

// errIndirect is the error of a request that only minio-go can send.
var errIndirect = errors.New("not a request that can be signed here")

// statusError is the error of a response that is not a success.
type statusError int

// Error implements error.
func (e statusError) Error() string { return "status " + strconv.Itoa(int(e)) }

// temporary reports whether minio-go would repeat a request after this error of the first attempt.
func temporary(err error) bool {
	var status statusError
	if !errors.As(err, &status) {
		return true
	}
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, 499:
		return true
	}
	return status >= http.StatusInternalServerError
}

// open sends the request. span is the value of its Range, empty for the whole object.
func (g *directGet) open(ctx context.Context, bucket, key, span string) (io.ReadCloser, error) {
	if s3utils.CheckValidBucketName(bucket) != nil || s3utils.CheckValidObjectName(key) != nil || s3utils.IsS3ExpressBucket(bucket) {
		return nil, errIndirect
	}
	value, ok := g.keys()
	if !ok {
		return nil, errIndirect
	}
	target := &url.URL{Scheme: g.endpoint.Scheme, Host: g.host, Path: "/" + bucket + "/" + key}
	if s3utils.IsVirtualHostSupported(g.endpoint, bucket) {
		target.Host, target.Path = bucket+"."+g.host, "/"+key
	}
	target.RawPath = s3utils.EncodePath(target.Path)
	request := &http.Request{Method: http.MethodGet, URL: target, Host: target.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"User-Agent": {"mediastack"}}}
	var headers []signedHeader
	if span != "" {
		headers = []signedHeader{{"range", span}}
	}
	g.signer.sign(request, value, headers, g.now())
	pipe := splice.FromContext(ctx)
	var conn **bodyConn
	if pipe != nil {
		ctx, conn = traceConn(ctx)
	}
	response, err := g.transport.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusPartialContent {
		// Read, so that the connection can be used again.
		_, _ = io.CopyN(io.Discard, response.Body, maxErrorBytes)
		_ = response.Body.Close()
		return nil, statusError(response.StatusCode)
	}
	if err := checkRange(response, span); err != nil {
		_ = response.Body.Close()
		return nil, err
	}
	if pipe != nil {
		(*conn).fillPipe(response, pipe)
	}
	return response.Body, nil
}

// checkRange returns an Unavailable fault unless a success begins with the first byte of span (RFC
// 9110, section 14.4): a cache in front of the store may ignore Range.
func checkRange(response *http.Response, span string) error {
	got := response.Header.Get("Content-Range")
	first, _, _ := strings.Cut(strings.TrimPrefix(span, "bytes="), "-")
	switch {
	case span == "" && response.StatusCode == http.StatusOK:
		return nil
	case span != "" && response.StatusCode == http.StatusPartialContent && strings.HasPrefix(got, "bytes "+first+"-"):
		return nil
	}
	return fault.Wrap(fmt.Errorf("%q is answered by status %d and Content-Range %q", span, response.StatusCode, got), fault.Unavailable, "the object store sent another range than requested")
}

// maxErrorBytes is the part of the body of an error that is read.
const maxErrorBytes = 64 << 10

// get opens an object: directly, and if that fails by minio-go, with all attempts but one.
func (s *Store) get(ctx context.Context, bucket, key, span string) (io.ReadCloser, error) {
	if s.direct == nil {
		return getWith(ctx, s.core, bucket, key, span)
	}
	body, err := s.openDirect(ctx, bucket, key, span)
	switch {
	case err == nil:
		return body, nil
	case errors.Is(err, errIndirect):
		return getWith(ctx, s.core, bucket, key, span)
	case fault.Is(err, fault.Unavailable): // another range
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case temporary(err):
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(rand.N(minio.DefaultRetryUnit)):
		}
	}
	return getWith(ctx, s.remaining, bucket, key, span)
}

// getWith opens an object by minio-go.
func getWith(ctx context.Context, core *minio.Core, bucket, key, span string) (io.ReadCloser, error) {
	options := minio.GetObjectOptions{}
	if span != "" {
		options.Set("Range", span)
	}
	body, _, _, err := core.GetObject(ctx, bucket, key, options)
	return body, err
}

// rangeOf returns the value of Range for length bytes from offset on, a negative length for all;
// empty for the whole object.
func rangeOf(offset, length int64) (string, error) {
	switch {
	case offset < 0:
		return "", fault.New(fault.Internal, "a read from %d", offset)
	case length >= 0:
		return "bytes=" + strconv.FormatInt(offset, 10) + "-" + strconv.FormatInt(offset+length-1, 10), nil
	case offset > 0:
		return "bytes=" + strconv.FormatInt(offset, 10) + "-", nil
	}
	return "", nil
}
