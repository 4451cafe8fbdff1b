// Package clienttest runs the service for the tests of the clients, behind a proxy that breaks connections
// and answers errors as the tests ask for.
package clienttest

import (
	"net/http/httptest"
	"testing"

	"mediastack.dev/hack/provision"
	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/account"
)

// Service is the shipped runtime, with an account.
type Service struct {
	// BaseURL is the service behind the proxy. LimitedURL is a replica of it that admits one request a second.
	BaseURL, LimitedURL string
	APIKey              string
	Front               *Front
}

// MaxUploadSize is the largest upload of the account.
const MaxUploadSize = 64 << 20

// New starts the service. Pages of localhost may call it.
func New(t testing.TB) *Service {
	t.Helper()
	database, access := testenv.Postgres(t), testenv.S3(t)
	tenants, err := provision.Accounts(t.Context(), database, access,
		account.Spec{Namespace: "clients", Name: "one", MaxStorage: 1 << 30, MaxUploadSize: MaxUploadSize})
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{APIKey: tenants[0].APIKey, Front: newFront()}
	front := httptest.NewServer(s.Front)
	t.Cleanup(func() {
		s.Front.Release() // Close waits for the requests
		front.Close()
	})
	s.BaseURL = front.URL
	stores, cors := servers.StoreSettings(database, access), "SERVICE_CORS_ORIGINS=http://localhost:*"
	secret := servers.RandomSecret(32)
	s.Front.target = testenv.Runtime(t, servers.RuntimeConfig{Name: "runtime", BaseURL: s.BaseURL, Secret: secret, Stores: stores, Env: []string{cors}}).Addr
	s.LimitedURL = testenv.Runtime(t, servers.RuntimeConfig{Name: "limited runtime", Secret: secret, Stores: stores,
		Env: []string{cors, "SERVICE_RATE_LIMIT_KEY=1", "SERVICE_RATE_LIMIT_KEY_BURST=1"}}).BaseURL
	return s
}
