package objectstore

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
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

// Validate checks the credentials. Without keys the identity of the pod is used only if that was
// asked for, so that a forgotten Secret is an error.
func (c *Config) Validate() error {
	if missing := c.MissingSettings(); len(missing) > 0 {
		return fmt.Errorf("not set: %s (or SERVICE_S3_CREDENTIALS=iam, for the identity of the pod)", strings.Join(missing, ", "))
	}
	if c.Credentials == IAMCredentials && (c.AccessKey != "" || c.SecretKey != "") {
		return errors.New("SERVICE_S3_ACCESS_KEY and SERVICE_S3_SECRET_KEY must not be set with SERVICE_S3_CREDENTIALS=iam")
	}
	return nil
}

// newCredentials returns the source of the keys that sign requests.
func newCredentials(cfg Config) *credentials.Credentials {
	if cfg.Credentials == IAMCredentials {
		return credentials.New(&temporaryKeys{now: time.Now, iam: &credentials.IAM{
			Client: &http.Client{Timeout: keysTimeout}, Region: cfg.Region, Endpoint: cfg.IAMEndpoint,
		}})
	}
	return credentials.NewStaticV4(cfg.AccessKey, cfg.SecretKey, "")
}

const (
	// keysTimeout bounds one request for temporary keys.
	keysTimeout = 10 * time.Second
	// keysRetryDelay is the time after a failed request for temporary keys until the next one.
	// Requests to the store meanwhile use the keys that there are, or fail at once.
	keysRetryDelay = 5 * time.Second
)

// temporaryKeys are keys that minio-go's IAM gets, and renews after 80 % of their lifetime. They are
// used until they expire if they cannot be renewed. credentials.Credentials calls it under a mutex.
type temporaryKeys struct {
	iam *credentials.IAM
	now func() time.Time

	last    credentials.Value
	failure error     // of the last request
	retryAt time.Time // when the next request may be sent after a failure
}

var _ credentials.Provider = (*temporaryKeys)(nil)

// RetrieveWithCredContext implements credentials.Provider.
func (t *temporaryKeys) RetrieveWithCredContext(ctx *credentials.CredContext) (credentials.Value, error) {
	if t.now().Before(t.retryAt) {
		return credentials.Value{}, t.failure
	}
	value, err := t.iam.RetrieveWithCredContext(ctx)
	if err == nil {
		t.last, t.failure, t.retryAt = value, nil, time.Time{}
		return value, nil
	}
	t.failure, t.retryAt = keysError{err}, t.now().Add(keysRetryDelay)
	if t.usable() {
		return t.last, nil
	}
	return credentials.Value{}, t.failure
}

// Retrieve implements credentials.Provider.
func (t *temporaryKeys) Retrieve() (credentials.Value, error) { return t.RetrieveWithCredContext(nil) }

// IsExpired implements credentials.Provider.
func (t *temporaryKeys) IsExpired() bool {
	if t.now().Before(t.retryAt) {
		return !t.usable()
	}
	return t.iam.IsExpired()
}

// usable reports whether the last keys have not expired.
func (t *temporaryKeys) usable() bool { return t.now().Before(t.last.Expiration) }

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
