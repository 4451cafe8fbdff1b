// Package objectstore is a client of S3 stores, built on minio-go: the operator claims, checks
// and removes buckets, the runtime and the purge put, read and remove objects. Every method is
// safe for concurrent use. Errors of the store are faults: NotFound, Conflict, Unavailable.
package objectstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"

	"mediastack.dev/runtime/consistency"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/media"
)

// Config holds the address and the credentials of the S3 store. The tags are flag and environment names.
type Config struct {
	Endpoint  string `env:"SERVICE_S3_ENDPOINT" help:"URL of the S3 store, such as https://s3.example.org." required:""`
	Region    string `env:"SERVICE_S3_REGION" help:"Region of the S3 store." default:"us-east-1"`
	AccessKey string `env:"SERVICE_S3_ACCESS_KEY" help:"Id of an S3 key that may create and remove buckets; not with SERVICE_S3_CREDENTIALS=iam."`
	SecretKey string `env:"SERVICE_S3_SECRET_KEY" help:"Secret of that S3 key (prefer the environment over the flag)."`

	ReadTimeout time.Duration `name:"read-timeout" env:"SERVICE_S3_READ_TIMEOUT" default:"30s" help:"How long S3 may send nothing of an object that is read: before its first byte, retries included, and later; from 1s to 10m. 0 = one minute for each of three attempts."`

	Credentials string `env:"SERVICE_S3_CREDENTIALS" enum:"static,iam" default:"static" help:"Where the keys come from: static (SERVICE_S3_ACCESS_KEY and SERVICE_S3_SECRET_KEY) or iam (temporary keys for the identity of the pod: IRSA, EKS Pod Identity, EC2)."`
	IAMEndpoint string `name:"iam-endpoint" env:"SERVICE_S3_IAM_ENDPOINT" help:"URL of the STS that temporary keys come from, instead of that of AWS in SERVICE_S3_REGION."`
}

var (
	_ media.ObjectStore       = (*Store)(nil)
	_ consistency.ObjectStore = (*Store)(nil)
	_ installation.Markers    = (*Store)(nil)
)

// Store is a client of one S3 store.
type Store struct {
	client *minio.Client
	core   *minio.Core
	// noRetry sends requests that must not be repeated.
	noRetry *minio.Core
	// direct opens objects; nil = core does. remaining makes the attempts after its first.
	direct    *directGet
	remaining *minio.Core
	region    string
	requests  *inFlight
	// readTimeout is Config.ReadTimeout.
	readTimeout time.Duration
	// pingBucket does not exist.
	pingBucket string
	// troubles has a value after a request that the store failed.
	troubles chan struct{}
	metrics  *metrics
}

// New returns a client. It sends no request.
func New(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	u, err := url.Parse(cfg.Endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || (u.Path != "" && u.Path != "/") {
		return nil, fmt.Errorf("the S3 endpoint must look like https://host[:port], not %q", cfg.Endpoint)
	}
	transport, err := minio.DefaultTransport(u.Scheme == "https")
	if err != nil {
		return nil, fmt.Errorf("make the S3 transport: %w", err)
	}
	// By default 16 idle connections are kept for each host. Every upload in flight uses one,
	// and reconnecting under load costs more than keeping them.
	transport.MaxIdleConnsPerHost = 256
	transport.ResponseHeaderTimeout = time.Minute
	transport.DialContext = dial
	troubles, measured := make(chan struct{}, 1), newMetrics()
	requests := &inFlight{next: transport, requests: map[*progress]struct{}{}}
	keys, valid := newCredentials(cfg)
	options := minio.Options{
		Creds:     keys,
		Secure:    u.Scheme == "https",
		Region:    cfg.Region,
		Transport: observedTransport{measuredTransport{tracedTransport{requests, u.Host}, u.Host, measured}, troubles},
	}
	direct, err := newDirectGet(cfg, u, options.Transport, valid)
	if err != nil {
		return nil, err
	}
	s := &Store{direct: direct, region: cfg.Region, readTimeout: cfg.ReadTimeout, pingBucket: pingPrefix + uuid.NewString(), requests: requests, troubles: troubles, metrics: measured}
	for attempts, core := range map[int]**minio.Core{maxAttempts: &s.core, maxAttempts - 1: &s.remaining, 1: &s.noRetry} {
		options.MaxRetries = attempts
		client, err := minio.New(u.Host, &options)
		if err != nil {
			return nil, fmt.Errorf("make the S3 client: %w", err)
		}
		*core = &minio.Core{Client: client}
	}
	s.client = s.core.Client
	return s, nil
}

// maxAttempts bounds the attempts of a request. minio-go's default, ten with backoff, delays a
// request for most of a minute while the store is down. The client can retry sooner.
const maxAttempts = 3

// pingPrefix begins the name of the bucket that Ping asks for. The rest is random: where the names of
// buckets are those of all customers, nobody else can create it, which would deny the access.
const pingPrefix = "mediastack-ping-"

// dialTimeout bounds one connection attempt.
const dialTimeout = 5 * time.Second

// Ping sends a cheap request that needs valid credentials, and does not repeat it.
func (s *Store) Ping(ctx context.Context) error {
	_, answer := s.noRetry.BucketExists(ctx, s.pingBucket)
	// A store may deny access to a bucket that does not exist; it responded all the same.
	err := s.classify(answer, "ping")
	if err == nil || fault.Is(err, fault.NotFound) {
		return nil
	}
	// The answer to HEAD has no body, which would have said why: a wrong clock looks like a missing permission.
	switch minio.ToErrorResponse(answer).StatusCode {
	case http.StatusMovedPermanently, http.StatusBadRequest, http.StatusForbidden:
		_, why := s.noRetry.ListObjectsV2(s.pingBucket, "", "", "", "", 1)
		if why = s.classify(why, "ping"); fault.ReasonOf(why) != "" {
			return why
		}
	}
	return err
}

// classify maps an S3 error to a fault, which wraps installation.ErrNoBucket if the store says that the bucket is missing. what describes the operation in the log.
func (s *Store) classify(err error, what string) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fault.Wrap(fmt.Errorf("s3: %s: %w", what, err), fault.Unavailable, "the object store did not respond in time")
	}
	var keys keysError
	if errors.As(err, &keys) {
		return keys.fault(what)
	}
	response := minio.ToErrorResponse(err)
	cause := fmt.Errorf("s3: %s: %w", what, err)
	if response.Code != "" {
		cause = fmt.Errorf("s3: %s: %s: %w", what, response.Code, err)
	}
	switch response.Code {
	case "NoSuchBucket":
		return fault.Wrap(errors.Join(installation.ErrNoBucket, cause), fault.NotFound, "not found in the object store")
	case "NoSuchKey", "NoSuchUpload", "NotFound":
		return fault.Wrap(cause, fault.NotFound, "not found in the object store")
	case "PreconditionFailed", "BucketAlreadyExists", "BucketNotEmpty":
		return fault.Wrap(cause, fault.Conflict, "the object or bucket already exists")
	}
	if response.StatusCode == http.StatusNotFound {
		return fault.Wrap(cause, fault.NotFound, "not found in the object store")
	}
	unavailable := fault.Wrap(cause, fault.Unavailable, "the object store can't be reached")
	reason := reasonOf(response)
	detail := what + ": " + cmp.Or(response.Code, http.StatusText(response.StatusCode))
	if expected, other := s.otherRegion(response); other {
		reason, detail = fault.Region, what+": "+cmp.Or(response.Code, http.StatusText(response.StatusCode))+": SERVICE_S3_REGION is "+s.region
		if expected != "" {
			detail += ", the store expects " + expected
		}
	}
	if reason != "" {
		return fault.Explain(unavailable, reason, detail)
	}
	return unavailable
}

// regionInMessage finds the region that a store expects in the message of an error: some name it nowhere else.
var regionInMessage = regexp.MustCompile(`expecting ['"‘]?([A-Za-z0-9-]{1,64})`)

// regionName matches the name of a region: what a store answers is shown to administrators.
var regionName = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// otherRegion reports whether a store answers that it, or the bucket, is in another region than the configured one, and which it
// expects, if it says so. AuthorizationHeaderMalformed has other causes, too.
func (s *Store) otherRegion(response minio.ErrorResponse) (expected string, other bool) {
	if regionName.MatchString(response.Region) {
		expected = response.Region
	} else if found := regionInMessage.FindStringSubmatch(response.Message); found != nil {
		expected = found[1]
	}
	switch response.Code {
	case "PermanentRedirect", minio.InvalidRegion, "IllegalLocationConstraintException":
		return expected, true
	case "AuthorizationHeaderMalformed":
		return expected, expected != "" && expected != s.region
	}
	switch response.StatusCode {
	case http.StatusMovedPermanently:
		return expected, true
	case http.StatusBadRequest: // an answer to HEAD has no body
		return expected, response.Region != "" && expected != "" && expected != s.region
	}
	return "", false
}

// reasonOf returns the reason of a response that stays the same until an administrator changes
// something; empty for any other. Stores name a full disk and a quota differently.
func reasonOf(response minio.ErrorResponse) fault.Reason {
	switch response.Code {
	case "InvalidBucketName":
		return fault.BucketName
	case "QuotaExceeded", "TooManyBuckets", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "StorageFull", "InsufficientStorage":
		return fault.StoreFull
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "ExpiredToken", "InvalidToken", "AccountProblem", "AuthorizationHeaderMalformed":
		return fault.Credentials
	case "RequestTimeTooSkewed", "RequestExpired":
		return fault.Clock
	}
	switch response.StatusCode {
	case http.StatusInsufficientStorage:
		return fault.StoreFull
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.Credentials
	}
	return ""
}

// ignoreMissing is classify that returns nil for NotFound.
func (s *Store) ignoreMissing(err error, what string) error {
	if err = s.classify(err, what); fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
