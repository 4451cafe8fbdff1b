package browser_test

import (
	"fmt"
	"html"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/provision"
	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/postgres"
)

// host is the name of the service in the browser.
const host = "media.example"

// service is what a browser reaches: the runtime behind a proxy that terminates TLS, as in
// production; a second runtime without TLS, as in the dev stack; and, under every other name,
// the hosts of other sites.
type service struct {
	database string
	mailLog  string
	// base and api are the address of the service in the browser and behind the proxy; it sends
	// another code after a second. plain is that of the second runtime, where nobody gets another code within a test.
	base, api, plain string
	front            *httptest.Server
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{database: testenv.Postgres(t), mailLog: filepath.Join(testenv.TempDir(t), "mail.log"), base: "https://" + host}
	access := testenv.S3(t)
	makeAccounts(t, s.database, access)
	mail := testenv.MailSink(t, s.mailLog)
	start := func(base string, env ...string) *servers.Runtime {
		t.Helper()
		return testenv.Runtime(t, servers.RuntimeConfig{BaseURL: base, Secret: strings.Repeat("ab", 32), Stores: servers.StoreSettings(s.database, access), Env: append(slices.Concat(env, mail), "SERVICE_MAIL_FROM=login@"+host,
			// All users come from one address.
			"SERVICE_LOGIN_CODES_PER_IP=10000", "SERVICE_LOGIN_CODES_PER_EMAIL=100", "SERVICE_OAUTH_REGISTRATIONS_PER_IP=10000", "SERVICE_RATE_LIMIT_LOGINS=0",
		)})
	}
	s.api = "http://" + start(s.base, "SERVICE_LOGIN_RESEND_AFTER=1s").Addr
	s.plain = start("", "SERVICE_LOGIN_RESEND_AFTER=5m").BaseURL

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

// librarian owns an account for large files.
const librarian = "nora.berg@example.org"

// filmmaker owns an account for many large files, with several apps.
const filmmaker = "ines.prado@example.org"

// collector owns many accounts, with long names.
const collector = "mia.many@example.org"

// owners returns the owners of the studio, those of the studio and the archive, and those of a gallery
// each.
func owners() (studio, both, galleries []string) {
	for n := range 60 {
		studio = append(studio, fmt.Sprintf("person-%d@people.example", n))
	}
	for n := range 10 {
		both = append(both, fmt.Sprintf("twice-%d@people.example", n))
	}
	for n := range 34 {
		galleries = append(galleries, fmt.Sprintf("gallery-%d@people.example", n))
	}
	return append(studio, "ana.lopez@example.org"), append(both, "bo.winter@example.org"), append(galleries, "lea.moreau@example.org", "noa.meyer@example.org", "max.full@example.org")
}

// makeAccounts provisions the accounts.
func makeAccounts(t *testing.T, database string, access servers.S3Access) {
	t.Helper()
	studio, both, galleries := owners()
	specs := []account.Spec{
		{Namespace: "team-a", Name: "studio", DisplayName: "Studio López", Owners: append(studio, both...), MaxStorage: 1 << 30, MaxUploadSize: 64 << 20},
		{Namespace: "team-a", Name: "archive", DisplayName: "Family archive", Owners: both, MaxStorage: 1 << 30, MaxUploadSize: 64 << 20,
			Undo: account.Undo{Window: 7 * 24 * time.Hour, For: account.UndoEveryone}},
	}
	for n, owner := range galleries {
		specs = append(specs, account.Spec{Namespace: "team-b", Name: fmt.Sprintf("gallery-%d", n), DisplayName: "Atelier Moreau", Owners: []string{owner}, MaxStorage: 4 << 20, MaxUploadSize: 2 << 20,
			Undo: account.Undo{Window: 72 * time.Hour, For: account.UndoEveryone}, Journal: 168 * time.Hour})
	}
	// Its name stands in no list of addresses: one scenario has it, from its first login to its last.
	specs = append(specs, account.Spec{Namespace: "team-b", Name: "library", DisplayName: "Town library", Owners: []string{librarian}, MaxStorage: 128 << 20, MaxUploadSize: 64 << 20,
		Undo: account.Undo{Window: 72 * time.Hour, For: account.UndoEveryone}})
	for n := range 12 {
		spec := account.Spec{Namespace: "team-c", Name: fmt.Sprintf("collection-%d", n), DisplayName: fmt.Sprintf("Collection %d of letters, drawings and early photographs", n), Owners: []string{collector},
			MaxStorage: 4 << 20, MaxUploadSize: 2 << 20}
		if n > 0 {
			spec.Undo = account.Undo{Window: time.Duration(n) * time.Hour, For: account.UndoEveryone}
		}
		if n == 3 {
			spec.ToolPolicy.ReadOnly = true
		}
		if n == 4 {
			spec.ToolPolicy.Tools = []string{"list_media", "get_media", "search_media", "upload_media", "seal_media"}
		}
		specs = append(specs, spec)
	}
	newsroom := account.Spec{Namespace: "team-d", Name: "newsroom", DisplayName: "Newsroom", Owners: []string{reporter}, MaxStorage: 1 << 30, MaxUploadSize: 256 << 20}
	newsroom.ToolPolicy.Toolsets = []string{account.ToolsetCore, account.ToolsetHandover}
	specs = append(specs, newsroom)
	proofs := account.Spec{Namespace: "team-d", Name: "proofs", DisplayName: "Proofs", Owners: []string{approver}, MaxStorage: 1 << 30, MaxUploadSize: 256 << 20, Undo: account.Undo{Window: time.Hour, For: account.UndoAgents}}
	proofs.ToolPolicy = account.ToolPolicy{Toolsets: []string{account.ToolsetCore, account.ToolsetOrganize, account.ToolsetHandover}, Approval: account.Approval{Delete: account.RuleAlways, Publish: account.RuleAlways, Settings: account.RuleAlways}}
	specs = append(specs, proofs)
	specs = append(specs, account.Spec{Namespace: "team-b", Name: "films", DisplayName: "Film archive", Owners: []string{filmmaker}, MaxStorage: 4 << 30, MaxUploadSize: 64 << 20})
	made, err := provision.Accounts(t.Context(), database, access, specs...)
	must(t, err)
	addApps(t, database, made[len(made)-1].Account, "trailers", "stills")
}

// addApps opens more apps of an account, each with a key.
func addApps(t *testing.T, database string, of account.Account, names ...string) {
	t.Helper()
	store, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: database})
	must(t, err)
	defer store.Close()
	registry := account.NewRegistry(store.Accounts, "provision", time.Now)
	apps, _, err := registry.OpenApps(t.Context(), of.ID, names)
	must(t, err)
	for _, app := range apps {
		if app.Name != account.DefaultApp {
			_, _, err := registry.IssueKey(t.Context(), app.ID, 1, 0)
			must(t, err)
		}
	}
}

// makeFiles returns a folder with files for uploads: landscapes, a document, and one that is too large.
func makeFiles(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	write := func(name string, data []byte) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(folder, name), data, 0o600))
	}
	must(t, os.Mkdir(filepath.Join(folder, "library"), 0o700))
	for _, one := range landscapes {
		write(one.name, one.draw(t))
	}
	write("Price list 2026.pdf", []byte("%PDF-1.7\n% a document\n%%EOF\n"))
	write("archive.bin", make([]byte, 1<<20)) // a quarter of a gallery's cap
	write("too-large.bin", make([]byte, 2<<20+1))
	write("Reading of the year.mp4", append([]byte("\x00\x00\x00\x18ftypmp42"), make([]byte, 40<<20)...))
	write("Rhabarberbarbarabarbarbarenbartbarbierbierbarbärbel_und_noch_viel_länger_ohne_ein_Leerzeichen.txt", []byte("Rhabarber"))
	return folder
}

var must = check.NoError
