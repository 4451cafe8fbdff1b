package objectstore

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"mediastack.dev/runtime/fault"
)

func TestConfig_NeedsKeysUnlessTheIdentityIsUsed(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"not set: SERVICE_S3_ACCESS_KEY, SERVICE_S3_SECRET_KEY": {Endpoint: "http://127.0.0.1:1"},
		"not set: SERVICE_S3_SECRET_KEY":                        {Endpoint: "http://127.0.0.1:1", AccessKey: "a", Credentials: StaticCredentials},
		"must not be set with SERVICE_S3_CREDENTIALS=iam":       {Endpoint: "http://127.0.0.1:1", AccessKey: "a", SecretKey: "b", Credentials: IAMCredentials},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := New(Config{Endpoint: "http://127.0.0.1:1", Credentials: IAMCredentials}); err != nil {
		t.Errorf("with the identity: %v", err)
	}
}

// sts stands in for AWS STS.
type sts struct {
	now      time.Time
	requests atomic.Int32
	reject   atomic.Value // code of an error, or empty
}

func (s *sts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	count := s.requests.Add(1)
	if code, _ := s.reject.Load().(string); code != "" || r.PostFormValue("WebIdentityToken") != "token of the pod" {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>%s</Code><Message>no</Message></Error></ErrorResponse>`, code)
		return
	}
	var answer credentials.AssumeRoleWithWebIdentityResponse
	answer.Result.Credentials.AccessKey = fmt.Sprintf("key-%d", count)
	answer.Result.Credentials.SecretKey, answer.Result.Credentials.SessionToken = "secret", "session"
	answer.Result.Credentials.Expiration = s.now.Add(time.Hour)
	_ = xml.NewEncoder(w).Encode(answer)
}

// Keys are renewed after 80 % of their lifetime, are used to their end while that fails, and an STS
// that fails gets one request in five seconds.
func TestTemporaryKeys_AreRenewedInTimeAndOutliveAnOutage(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := start
	service := &sts{now: start}
	server := httptest.NewServer(service)
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("token of the pod"), 0o600); err != nil {
		t.Fatal(err)
	}
	iam := &credentials.IAM{Client: server.Client(), Endpoint: server.URL}
	iam.EKSIdentity.TokenFile, iam.EKSIdentity.RoleARN = token, "arn:aws:iam::1:role/media"
	iam.CurrentTime = func() time.Time { return clock }
	provider := &temporaryKeys{now: func() time.Time { return clock }, iam: iam}
	keys := credentials.New(provider)
	for _, step := range []struct {
		at       time.Duration
		reject   string
		key      string
		requests int32
	}{
		{0, "", "key-1", 1},
		{47 * time.Minute, "", "key-1", 1},
		{49 * time.Minute, "AccessDenied", "key-1", 2},
		{49*time.Minute + 4*time.Second, "AccessDenied", "key-1", 2},
		{49*time.Minute + 6*time.Second, "AccessDenied", "key-1", 3},
		{61 * time.Minute, "AccessDenied", "", 4},
		{61*time.Minute + 2*time.Second, "AccessDenied", "", 4},
		{62 * time.Minute, "", "key-5", 5},
	} {
		clock = start.Add(step.at)
		service.now = clock
		service.reject.Store(step.reject)
		value, err := keys.GetWithContext(nil)
		if value.AccessKeyID != step.key || (err == nil) != (step.key != "") || service.requests.Load() != step.requests {
			t.Errorf("after %s: key %q, %v, %d requests; want %+v", step.at, value.AccessKeyID, err, service.requests.Load(), step)
		}
		if err != nil && (!fault.Is(classify(err, "ping"), fault.Unavailable) || fault.ReasonOf(classify(err, "ping")) != fault.Credentials) {
			t.Errorf("after %s: classified as %v", step.at, classify(err, "ping"))
		}
	}
}
