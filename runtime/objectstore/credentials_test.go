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

	"mediastack.dev/hack/testenv/wait"
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
	lifetime time.Duration
	now      func() time.Time
	requests atomic.Int32
	reject   atomic.Value // code of an error, or empty
	empty    atomic.Bool  // answers have no keys
	hang     atomic.Pointer[chan struct{}]
}

func (s *sts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	count := s.requests.Add(1)
	if hang := s.hang.Load(); hang != nil {
		<-*hang
	}
	if code, _ := s.reject.Load().(string); code != "" || r.PostFormValue("WebIdentityToken") != "token of the pod" {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>%s</Code><Message>no</Message></Error></ErrorResponse>`, code)
		return
	}
	var answer credentials.AssumeRoleWithWebIdentityResponse
	if !s.empty.Load() {
		answer.Result.Credentials.AccessKey = fmt.Sprintf("key-%d", count)
		answer.Result.Credentials.SecretKey, answer.Result.Credentials.SessionToken = "secret", "session"
		answer.Result.Credentials.Expiration = s.now().Add(s.lifetime)
	}
	_ = xml.NewEncoder(w).Encode(answer)
}

// keySource is a provider of temporary keys with a clock of its own.
type keySource struct {
	*sts
	t        *testing.T
	start    time.Time
	since    atomic.Int64 // nanoseconds since start
	provider *temporaryKeys
	keys     *credentials.Credentials
}

func newKeySource(t *testing.T) *keySource {
	t.Helper()
	s := &keySource{sts: &sts{lifetime: time.Hour}, t: t, start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return s.start.Add(time.Duration(s.since.Load())) }
	s.now = clock
	server := httptest.NewServer(s.sts)
	t.Cleanup(server.Close)
	token := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(token, []byte("token of the pod"), 0o600))
	iam := &credentials.IAM{Client: server.Client(), Endpoint: server.URL}
	iam.EKSIdentity.TokenFile, iam.EKSIdentity.RoleARN = token, "arn:aws:iam::1:role/media"
	iam.CurrentTime = clock
	s.provider = &temporaryKeys{now: clock, iam: iam}
	s.keys = credentials.New(s.provider)
	return s
}

// at sets the clock.
func (s *keySource) at(since time.Duration) { s.since.Store(int64(since)) }

// renewed waits until no renewal runs.
func (s *keySource) renewed() {
	s.t.Helper()
	wait.Until(s.t, "the renewal has ended", func() bool {
		s.provider.mu.Lock()
		defer s.provider.mu.Unlock()
		return !s.provider.renewing
	})
}

// Keys are renewed after 80 % of their lifetime, are used to their end while that fails, and an STS
// that fails gets one request in five seconds.
func TestTemporaryKeys_AreRenewedInTimeAndOutliveAnOutage(t *testing.T) {
	t.Parallel()
	s := newKeySource(t)
	for _, step := range []struct {
		at       time.Duration
		reject   string
		key      string // after a renewal
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
		{111 * time.Minute, "", "key-6", 6},
	} {
		s.at(step.at)
		s.reject.Store(step.reject)
		_, _ = s.keys.GetWithContext(nil)
		s.renewed()
		value, err := s.keys.GetWithContext(nil)
		s.renewed()
		if value.AccessKeyID != step.key || (err == nil) != (step.key != "") || s.requests.Load() != step.requests {
			t.Errorf("after %s: key %q, %v, %d requests; want %+v", step.at, value.AccessKeyID, err, s.requests.Load(), step)
		}
		if err != nil && (!fault.Is((&Store{}).classify(err, "ping"), fault.Unavailable) || fault.ReasonOf((&Store{}).classify(err, "ping")) != fault.Credentials) {
			t.Errorf("after %s: classified as %v", step.at, (&Store{}).classify(err, "ping"))
		}
	}
}

// A request to the store does not wait for an STS that hangs while the keys are valid.
func TestTemporaryKeys_AreUsedWhileSTSHangs(t *testing.T) {
	t.Parallel()
	s := newKeySource(t)
	if _, err := s.keys.GetWithContext(nil); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	s.hang.Store(&release)
	s.at(50 * time.Minute)
	for range 3 { // each would wait for release
		if value, err := s.keys.GetWithContext(nil); err != nil || value.AccessKeyID != "key-1" {
			t.Errorf("key %q, %v", value.AccessKeyID, err)
		}
	}
	close(release)
	s.renewed()
	if value, err := s.keys.GetWithContext(nil); err != nil || value.AccessKeyID != "key-2" || s.requests.Load() != 2 {
		t.Errorf("key %q, %v, %d requests", value.AccessKeyID, err, s.requests.Load())
	}
}

// An answer without keys replaces none.
func TestTemporaryKeys_AreKeptIfTheAnswerHasNone(t *testing.T) {
	t.Parallel()
	s := newKeySource(t)
	if _, err := s.keys.GetWithContext(nil); err != nil {
		t.Fatal(err)
	}
	s.empty.Store(true)
	s.at(50 * time.Minute)
	_, _ = s.keys.GetWithContext(nil)
	s.renewed()
	if value, err := s.keys.GetWithContext(nil); err != nil || value.AccessKeyID != "key-1" {
		t.Errorf("key %q, %v", value.AccessKeyID, err)
	}
	s.at(2 * time.Hour)
	if value, err := s.keys.GetWithContext(nil); err == nil || value.AccessKeyID != "" {
		t.Errorf("after the end of the keys: %q, %v", value.AccessKeyID, err)
	}
}
