// Package objectstore reaches any S3 store through minio-go: the operator claims,
// checks and removes buckets, the runtime and the purge put, read and remove
// objects. Every method is safe for concurrent use. What the store says becomes a
// fault: NotFound, Conflict, Unavailable.
package objectstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mediastack.dev/runtime/fault"
)

// Config says where the S3 store is. The tags are flag and environment names.
type Config struct {
	Endpoint  string `env:"SERVICE_S3_ENDPOINT" help:"S3 endpoint, e.g. https://s3.example.org." required:""`
	Region    string `env:"SERVICE_S3_REGION" help:"S3 region." default:"us-east-1"`
	AccessKey string `env:"SERVICE_S3_ACCESS_KEY" help:"S3 access key id." required:""`
	SecretKey string `env:"SERVICE_S3_SECRET_KEY" help:"S3 secret key (prefer the environment over the flag)." required:""`
}

// Store is a client of one S3 store.
type Store struct {
	client *minio.Client
	core   *minio.Core
	// once tries requests once: for those that must not happen twice.
	once   *minio.Core
	region string
}

// New checks the configuration and makes a client; it sends nothing yet.
func New(cfg Config) (*Store, error) {
	u, err := url.Parse(cfg.Endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || (u.Path != "" && u.Path != "/") {
		return nil, fmt.Errorf("the S3 endpoint must look like https://host[:port], not %q", cfg.Endpoint)
	}
	transport, err := minio.DefaultTransport(u.Scheme == "https")
	if err != nil {
		return nil, fmt.Errorf("make the S3 transport: %w", err)
	}
	// The defaults keep 16 idle connections for each host; every upload in flight
	// wants one, and reconnecting under load costs more than keeping them.
	transport.MaxIdleConnsPerHost = 256
	transport.ResponseHeaderTimeout = time.Minute
	options := &minio.Options{
		Creds:     credentials.NewStaticV4(cfg.AccessKey, cfg.SecretKey, ""),
		Secure:    u.Scheme == "https",
		Region:    cfg.Region,
		Transport: transport,
		// Ten tries with growing pauses, the default, keep a request waiting for most
		// of a minute when the store is down; whoever asked can try again sooner.
		MaxRetries: 3,
	}
	client, err := minio.New(u.Host, options)
	if err != nil {
		return nil, fmt.Errorf("make the S3 client: %w", err)
	}
	options.MaxRetries = 1
	once, err := minio.New(u.Host, options)
	if err != nil {
		return nil, fmt.Errorf("make the S3 client: %w", err)
	}
	return &Store{client: client, core: &minio.Core{Client: client}, once: &minio.Core{Client: once}, region: cfg.Region}, nil
}

// Ping asks the store for something cheap that needs valid credentials.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.client.BucketExists(ctx, "mediastack-ping")
	// A store may refuse to say whether a bucket of nobody exists; it answered all the same.
	if err = classify(err, "ping"); err == nil || fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// classify turns an S3 error into a fault. what is said in the log.
func classify(err error, what string) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fault.Wrap(fmt.Errorf("s3: %s: %w", what, err), fault.Unavailable, "the object store did not answer in time")
	}
	response := minio.ToErrorResponse(err)
	cause := fmt.Errorf("s3: %s: %w", what, err)
	if response.Code != "" {
		cause = fmt.Errorf("s3: %s: %s: %w", what, response.Code, err)
	}
	switch response.Code {
	case "NoSuchBucket", "NoSuchKey", "NoSuchUpload", "NotFound":
		return fault.Wrap(cause, fault.NotFound, "the object store has no such object")
	case "PreconditionFailed", "BucketAlreadyExists", "BucketNotEmpty":
		return fault.Wrap(cause, fault.Conflict, "the object store holds something else there")
	}
	if response.StatusCode == http.StatusNotFound {
		return fault.Wrap(cause, fault.NotFound, "the object store has no such object")
	}
	return fault.Wrap(cause, fault.Unavailable, "the object store can't be reached")
}

// ignoreMissing is classify with NotFound as success.
func ignoreMissing(err error, what string) error {
	if err = classify(err, what); fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
