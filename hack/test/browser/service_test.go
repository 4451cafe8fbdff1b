package browser_test

import (
	"fmt"
	"html"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
)

// host is the name of the service in the browser.
const host = "media.example"

// service is what a browser finds: the runtime behind a proxy that ends TLS, as it is
// reached in earnest; a second runtime without TLS, as the dev stack has it; and, under
// every other name, hosts of other people.
type service struct {
	database string
	mailLog  string
	// base and api are the address of the service in the browser and behind the proxy,
	// plain that of the second one, which is ready for another code after a second.
	base, api, plain string
	front            *httptest.Server
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{database: testenv.Postgres(t), mailLog: filepath.Join(testenv.Folder(t), "mail.log"), base: "https://" + host}
	access, group := testenv.S3(t), testenv.Group(t)
	provision(t, s.database, access)
	_, sink, err := group.StartMailSink(t.Context(), 0, s.mailLog)
	must(t, err)
	mailHost, mailPort, err := net.SplitHostPort(sink)
	must(t, err)
	start := func(base string, port int, env ...string) {
		t.Helper()
		admin, err := servers.FreePort()
		must(t, err)
		_, err = group.Start(t.Context(), servers.Spec{
			Name: "the runtime at " + base, Path: testenv.Binary(t, "mediastack-runtime"), Args: []string{"serve"},
			LogFile: filepath.Join(testenv.Folder(t), "runtime.log"),
			Env: append(env,
				"SERVICE_SECRET="+strings.Repeat("ab", 32), "SERVICE_BASE_URL="+base,
				fmt.Sprintf("SERVICE_LISTEN=127.0.0.1:%d", port), fmt.Sprintf("SERVICE_ADMIN_LISTEN=127.0.0.1:%d", admin),
				"SERVICE_DATABASE_URL="+s.database, "SERVICE_S3_ENDPOINT="+access.Endpoint, "SERVICE_S3_REGION="+access.Region,
				"SERVICE_S3_ACCESS_KEY="+access.AccessKey, "SERVICE_S3_SECRET_KEY="+access.SecretKey,
				"SERVICE_SMTP_HOST="+mailHost, "SERVICE_SMTP_PORT="+mailPort, "SERVICE_SMTP_TLS=none", "SERVICE_MAIL_FROM=login@"+host,
				// All people come from one address.
				"SERVICE_LOGIN_CODES_PER_IP=10000", "SERVICE_LOGIN_CODES_PER_EMAIL=100", "SERVICE_OAUTH_REGISTRATIONS_PER_IP=10000", "SERVICE_RATE_LIMIT_LOGINS=0",
			),
			Ready: servers.Answers(fmt.Sprintf("http://127.0.0.1:%d/readyz", admin)),
		})
		must(t, err)
	}
	port := freePort(t)
	s.api = fmt.Sprintf("http://127.0.0.1:%d", port)
	start(s.base, port, "SERVICE_LOGIN_RESEND_AFTER=1s")
	port = freePort(t)
	s.plain = fmt.Sprintf("http://127.0.0.1:%d", port)
	start(s.plain, port)

	target, err := url.Parse(s.api)
	must(t, err)
	quiet := log.New(io.Discard, "", 0) // browsers hang up as they please
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, ErrorLog: quiet}
	s.front = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == host {
			proxy.ServeHTTP(w, r)
			return
		}
		elsewhere(w, r)
	}))
	s.front.Config.ErrorLog = quiet
	s.front.StartTLS()
	t.Cleanup(s.front.Close)
	return s
}

// elsewhere is any other host. It shows what it was asked for, or the page that it is
// told to show.
func elsewhere(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	page := r.URL.Query().Get("show")
	if page == "" {
		page = "<title>elsewhere</title><p>asked for " + html.EscapeString(r.Method+" "+r.URL.RequestURI())
	}
	_, _ = io.WriteString(w, "<!doctype html><html lang=en><meta charset=utf-8>"+page)
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := servers.FreePort()
	must(t, err)
	return port
}

// everybody own the studio; those of both own the archive, too.
func everybody() (one, both []string) {
	for n := range 60 {
		one = append(one, fmt.Sprintf("person-%d@people.example", n))
	}
	for n := range 10 {
		both = append(both, fmt.Sprintf("twice-%d@people.example", n))
	}
	return append(one, "ana.lopez@example.org"), append(both, "bo.winter@example.org")
}

// provision does what the operator does for accounts.
func provision(t *testing.T, database string, access servers.S3Access) {
	t.Helper()
	cfg, quiet := postgres.Config{DatabaseURL: database}, slog.New(slog.DiscardHandler)
	must(t, postgres.Migrate(t.Context(), cfg, quiet))
	store, err := postgres.Open(t.Context(), cfg)
	must(t, err)
	defer store.Close()
	objects, err := objectstore.New(objectstore.Config{Endpoint: access.Endpoint, Region: access.Region, AccessKey: access.AccessKey, SecretKey: access.SecretKey})
	must(t, err)
	registry := account.NewRegistry(store, "people", time.Now)
	one, both := everybody()
	for _, spec := range []account.Spec{
		{Name: "studio", DisplayName: "Studio López", Owners: append(one, both...)},
		{Name: "archive", DisplayName: "Family archive", Owners: both},
	} {
		spec.Namespace, spec.MaxStorage, spec.MaxUploadSize = "team-a", 1<<30, 64<<20
		made, err := registry.Ensure(t.Context(), spec)
		must(t, err)
		_, err = objects.Claim(t.Context(), made.Bucket, objectstore.Owner{AccountID: made.ID.String()}, false)
		must(t, err)
		must(t, registry.SetBucketOwned(t.Context(), made.ID, true))
		apps, err := registry.SetApps(t.Context(), made.ID, nil)
		must(t, err)
		_, _, err = registry.IssueKey(t.Context(), apps[0].ID, 1, 0)
		must(t, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
