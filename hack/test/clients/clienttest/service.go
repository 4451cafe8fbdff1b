// Package clienttest runs the service for the tests of the clients, behind a proxy that breaks connections
// and answers errors as the tests ask for.
package clienttest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"mediastack.dev/hack/provision"
	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/account"
)

// Service is the shipped runtime, with an account.
type Service struct {
	// BaseURL is the service behind the proxy. LimitedURL is a replica of it that admits one request a second, and does
	// not offer uploads from a URL.
	BaseURL, LimitedURL string
	APIKey              string
	Front               *Front
	// RemoteURL is another server, from which the service may download: RemoteFile at /photo.txt, and nothing else.
	RemoteURL string

	database string
	access   testenv.S3Access
	secret   string
}

// RemoteFile is the file of the other server.
const RemoteFile = "a file of another server"

// MaxUploadSize is the largest upload of the account.
const MaxUploadSize = 64 << 20

// New starts the service, with an account that has a journal and keeps places, and whose deletes can be undone. Pages of localhost may call it.
func New(t testing.TB) *Service {
	t.Helper()
	database, access := testenv.Postgres(t), testenv.S3(t)
	s := &Service{Front: newFront(), database: database, access: access}
	s.APIKey = s.Account(t, "one", MaxUploadSize, account.Undo{Window: time.Hour, For: account.UndoEveryone})
	files := http.NewServeMux()
	files.HandleFunc("GET /photo.txt", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, RemoteFile) })
	remote := testenv.Files(t, files)
	s.RemoteURL = remote.URL
	front := httptest.NewServer(s.Front)
	t.Cleanup(func() {
		s.Front.Release() // Close waits for the requests
		front.Close()
	})
	s.BaseURL = front.URL
	stores, cors := servers.StoreSettings(database, access), "SERVICE_CORS_ORIGINS=http://localhost:*"
	s.secret = servers.RandomSecret(32)
	s.Front.target = testenv.Runtime(t, servers.RuntimeConfig{Name: "runtime", BaseURL: s.BaseURL, Secret: s.secret, Stores: stores, Env: append(remote.Settings, cors)}).Addr
	s.LimitedURL = s.Replica(t, cors, "SERVICE_RATE_LIMIT_KEY=1", "SERVICE_RATE_LIMIT_KEY_BURST=1")
	return s
}

// Replica starts a replica of the service with settings of its own, which clients reach without the proxy, and returns its base URL.
func (s *Service) Replica(t testing.TB, settings ...string) (baseURL string) {
	t.Helper()
	config := servers.RuntimeConfig{Name: "another replica", Secret: s.secret, Stores: servers.StoreSettings(s.database, s.access), Env: settings}
	return testenv.Runtime(t, config).BaseURL
}

// Account makes another account of the service and returns the key of its Default App.
func (s *Service) Account(t testing.TB, name string, maxUploadSize int64, undo account.Undo) (apiKey string) {
	t.Helper()
	tenants, err := provision.Accounts(t.Context(), s.database, s.access,
		account.Spec{Namespace: "clients", Name: name, MaxStorage: 1 << 30, MaxUploadSize: maxUploadSize, Undo: undo, Journal: 24 * time.Hour, KeepLocation: true})
	must(t, err)
	return tenants[0].APIKey
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
