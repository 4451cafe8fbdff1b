package objectstore

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"mediastack.dev/runtime/fault"
)

// Values of Config.Credentials.
const (
	// StaticCredentials are AccessKey and SecretKey.
	StaticCredentials = "static"
	// IAMCredentials are temporary keys for the identity of the pod: a web identity token (IRSA),
	// EKS Pod Identity or the role of the EC2 instance.
	IAMCredentials = "iam"
)

// MissingSettings returns the names of the keys that are not set, unless there need not be any.
func (c *Config) MissingSettings() (missing []string) {
	if c.Credentials == IAMCredentials {
		return nil
	}
	if c.AccessKey == "" {
		missing = append(missing, "SERVICE_S3_ACCESS_KEY")
	}
	if c.SecretKey == "" {
		missing = append(missing, "SERVICE_S3_SECRET_KEY")
	}
	return missing
}

// Validate checks the bounds and the credentials. Without keys the identity of the pod is used only if that was
// asked for, so that a forgotten Secret is an error.
func (c *Config) Validate() error {
	if err := c.validateReadTimeout(); err != nil {
		return err
	}
	if missing := c.MissingSettings(); len(missing) > 0 {
		return fmt.Errorf("not set: %s (or SERVICE_S3_CREDENTIALS=iam, for the identity of the pod)", strings.Join(missing, ", "))
	}
	if c.Credentials == IAMCredentials && (c.AccessKey != "" || c.SecretKey != "") {
		return errors.New("SERVICE_S3_ACCESS_KEY and SERVICE_S3_SECRET_KEY must not be set with SERVICE_S3_CREDENTIALS=iam")
	}
	return nil
}

// newCredentials returns the source of the keys that sign requests, and a function that returns
// valid keys if that needs no request.
func newCredentials(cfg Config) (*credentials.Credentials, func() (credentials.Value, bool)) {
	if cfg.Credentials == IAMCredentials {
		keys := &temporaryKeys{now: time.Now, iam: &credentials.IAM{
			Client: &http.Client{Timeout: keysTimeout}, Region: cfg.Region, Endpoint: cfg.IAMEndpoint,
		}}
		return credentials.New(keys), keys.current
	}
	static := credentials.Value{AccessKeyID: cfg.AccessKey, SecretAccessKey: cfg.SecretKey, SignerType: credentials.SignatureV4}
	return credentials.NewStaticV4(cfg.AccessKey, cfg.SecretKey, ""), func() (credentials.Value, bool) { return static, true }
}

const (
	// keysTimeout bounds one request for temporary keys.
	keysTimeout = 10 * time.Second
	// keysRetryDelay is the time after a failed request for temporary keys until the next one.
	// Requests to the store meanwhile use the keys that there are, or fail at once.
	keysRetryDelay = 5 * time.Second
)

// temporaryKeys are keys that minio-go's IAM gets. They are renewed after 80 % of their lifetime, in
// the background: until they expire, no request waits for STS. credentials.Credentials calls the
// methods under a mutex of its own.
type temporaryKeys struct {
	iam *credentials.IAM
	now func() time.Time

	// requesting is held during a request to STS.
	requesting sync.Mutex

	mu       sync.Mutex
	last     credentials.Value
	renewAt  time.Time
	failure  error     // of the last request
	retryAt  time.Time // when the next request may be sent after a failure
	renewing bool
}

var _ credentials.Provider = (*temporaryKeys)(nil)

// RetrieveWithCredContext implements credentials.Provider.
func (t *temporaryKeys) RetrieveWithCredContext(ctx *credentials.CredContext) (credentials.Value, error) {
	value, ok := t.valid()
	if ok {
		return value, nil
	}
	t.requesting.Lock()
	defer t.requesting.Unlock()
	if value, ok = t.valid(); ok { // renewed meanwhile
		return value, nil
	}
	if failure := t.recentFailure(); failure != nil {
		return credentials.Value{}, failure
	}
	return t.request(ctx)
}

// valid returns the keys, unless they have expired.
func (t *temporaryKeys) valid() (credentials.Value, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last, t.now().Before(t.last.Expiration)
}

// current returns the keys, unless they have expired, and begins their renewal if it is due.
func (t *temporaryKeys) current() (credentials.Value, bool) {
	t.IsExpired()
	return t.valid()
}

// recentFailure returns the failure after which no request is sent yet.
func (t *temporaryKeys) recentFailure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now().Before(t.retryAt) {
		return t.failure
	}
	return nil
}

// request asks STS for keys. The caller holds requesting.
func (t *temporaryKeys) request(ctx *credentials.CredContext) (credentials.Value, error) {
	value, err := t.iam.RetrieveWithCredContext(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if err == nil && (value.AccessKeyID == "" || value.SecretAccessKey == "" || !now.Before(value.Expiration)) {
		err = errors.New("the answer has no valid keys")
	}
	if err != nil {
		t.failure, t.retryAt = keysError{err}, now.Add(keysRetryDelay)
		return credentials.Value{}, t.failure
	}
	t.last, t.failure, t.retryAt = value, nil, time.Time{}
	t.renewAt = now.Add(value.Expiration.Sub(now) / 5 * 4)
	return value, nil
}

// Retrieve implements credentials.Provider.
func (t *temporaryKeys) Retrieve() (credentials.Value, error) { return t.RetrieveWithCredContext(nil) }

// IsExpired implements credentials.Provider. It is called for each request to the store, and begins the
// renewal.
func (t *temporaryKeys) IsExpired() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if now.Before(t.last.Expiration) && !now.Before(t.renewAt) && !now.Before(t.retryAt) && !t.renewing {
		t.renewing = true
		go t.renew()
	}
	// Credentials keeps the value that it has: it must ask for the renewed one.
	return true
}

// renew replaces the keys. A failure leaves them as they are.
func (t *temporaryKeys) renew() {
	t.requesting.Lock()
	defer t.requesting.Unlock()
	_, _ = t.request(nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewing = false
}

// keysError is the error of a request for temporary keys.
type keysError struct{ error }

func (e keysError) Unwrap() error { return e.error }

// fault returns the error as a fault. An answer of STS is a rejection, which only an administrator
// can end.
func (e keysError) fault(what string) error {
	unavailable := fault.Wrap(fmt.Errorf("s3: %s: get temporary keys: %w", what, e.error), fault.Unavailable, "the object store can't be reached")
	var answer credentials.ErrorResponse
	if errors.As(e.error, &answer) && answer.STSError.Type != "Receiver" { // AWS' word for an error of its own
		return fault.Explain(unavailable, fault.Credentials, "get temporary keys: "+answer.STSError.Code)
	}
	return unavailable
}
