package remotefile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/internal/remotefile"
	"mediastack.dev/runtime/internal/runtimetest"
)

var must = check.NoError

func TestMain(m *testing.M) { testenv.Main(m) }

// get downloads a file.
func get(t *testing.T, client *remotefile.Client, url string) ([]byte, error) {
	t.Helper()
	file, err := client.Open(t.Context(), url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Body.Close() }()
	return io.ReadAll(file.Body)
}

// fails requires a failure with this code, whose text names no address.
func fails(t *testing.T, err error, code fetch.Code) {
	t.Helper()
	var failure *fetch.Failure
	if !errors.As(err, &failure) || failure.Code != code {
		t.Errorf("got %v, want %s", err, code)
	} else if strings.Contains(failure.Text, "127.0.0") || strings.Contains(failure.Text, "example.com") {
		t.Errorf("the text names an address: %s", failure.Text)
	}
}

func TestOpen_SendsNothingThatIdentifies(t *testing.T) {
	if !testenv.InEnvironment(t, "HTTPS_PROXY=http://127.0.0.1:1") {
		return
	}
	var headers []http.Header
	var site *runtimetest.Site
	site = runtimetest.NewSite(t, func(w http.ResponseWriter, r *http.Request) {
		headers = append(headers, r.Header)
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b", Secure: true, HttpOnly: true})
		if r.URL.Path == "/a" {
			http.Redirect(w, r, site.URL("/b?token=1#part"), http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "hello "+r.URL.RequestURI())
	})
	body, err := get(t, site.Client(t), site.URL("/a"))
	if err != nil || string(body) != "hello /b?token=1" {
		t.Fatalf("%q, %v", body, err)
	}
	for _, header := range headers {
		if len(header) != 4 || header.Get("Connection") != "close" || header.Get("User-Agent") != "mediastack" || header.Get("Accept") != "*/*" || header.Get("Accept-Encoding") != "identity" {
			t.Errorf("the request has the header %v", header)
		}
	}
}

// The name server returns an allowed address first, and the trap from then on. Each connection is
// judged by the address that it is made to.
func TestOpen_JudgesTheAddressOfEachConnection(t *testing.T) {
	t.Parallel()
	var site *runtimetest.Site
	site = runtimetest.NewSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/redirect" {
			http.Redirect(w, r, site.Named("rebound.example.com", "/"), http.StatusFound)
		}
	})
	site.Rebind("rebound.example.com", "127.0.0.1", "127.0.0.2")
	client := site.Client(t)
	if _, err := get(t, client, site.Named("rebound.example.com", "/")); err != nil {
		t.Fatal(err)
	}
	if queries := site.Queries.Load(); queries != 1 {
		t.Errorf("%d questions for one connection", queries)
	}
	_, err := get(t, client, site.Named("rebound.example.com", "/"))
	fails(t, err, fetch.AddressNotAllowed)
	site.Rebind("rebound.example.com", "127.0.0.1", "127.0.0.2")
	_, err = get(t, client, site.Named("rebound.example.com", "/redirect"))
	fails(t, err, fetch.AddressNotAllowed)
	// Of several addresses only the allowed one is used.
	site.Resolve("both.example.com", "127.0.0.2", "127.0.0.1", "::ffff:127.0.0.2")
	if _, err := get(t, client, site.Named("both.example.com", "/")); err != nil {
		t.Error(err)
	}
	if trapped := site.Trapped.Load(); trapped != 0 {
		t.Errorf("%d connections to an address that is not allowed", trapped)
	}
}

func TestOpen_ReachesNoSpecialAddress(t *testing.T) {
	t.Parallel()
	site := runtimetest.NewSite(t, func(http.ResponseWriter, *http.Request) { t.Error("the site was reached") })
	client := site.Client(t, func(c *remotefile.Config) { c.AllowNetworks = nil })
	for i, address := range []string{"127.0.0.1", "127.0.0.2", "0.0.0.0", "10.0.0.1", "100.64.0.1", "169.254.169.254", "192.168.0.1", "224.0.0.1", "240.0.0.1",
		"::1", "::", "fe80::1", "fc00::1", "fec0::1", "ff02::1", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b:1::127.0.0.1",
		"2002:7f00:1::", "2001:0:7f00:1::", "2001:db8::1", "2606:4700::5efe:127.0.0.1"} {
		name := fmt.Sprintf("n%d.example.com", i)
		site.Resolve(name, address)
		_, err := get(t, client, site.Named(name, "/"))
		fails(t, err, fetch.AddressNotAllowed)
		if err := client.Check(site.Named(address, "/")); err == nil {
			t.Errorf("%s is accepted in a URL", address)
		}
	}
	// A name that does not exist has the same answer.
	_, err := get(t, client, site.Named("none.example.com", "/"))
	fails(t, err, fetch.AddressNotAllowed)
	if trapped := site.Trapped.Load(); trapped != 0 {
		t.Errorf("%d connections to an address that is not allowed", trapped)
	}
}

// The administrator learns the address and the setting, of which the tenant's text says nothing.
func TestOpen_TellsTheAdministratorWhyAnAddressIsNotAllowed(t *testing.T) {
	t.Parallel()
	site := runtimetest.NewSite(t, func(http.ResponseWriter, *http.Request) { t.Error("the site was reached") })
	site.Resolve("internal.example.com", "10.1.2.3")
	denied := func(c *remotefile.Config) { c.DenyNetworks = []string{"10.0.0.0/8"} }
	for _, tt := range []struct {
		name, want string
		change     func(*remotefile.Config)
	}{
		{"internal.example.com", "resolved to 10.1.2.3:", func(*remotefile.Config) {}},
		{"internal.example.com", "not in SERVICE_FETCH_ALLOW_NETWORKS", func(*remotefile.Config) {}},
		{"internal.example.com", "in SERVICE_FETCH_DENY_NETWORKS", denied},
		{"none.example.com", "did not resolve", func(*remotefile.Config) {}},
	} {
		_, err := get(t, site.Client(t, tt.change), site.Named(tt.name, "/"))
		fails(t, err, fetch.AddressNotAllowed)
		var failure *fetch.Failure
		if !errors.As(err, &failure) || failure.Cause == nil || !strings.Contains(failure.Cause.Error(), tt.want) || strings.Contains(err.Error(), "10.1.2.3") {
			t.Errorf("%s: %v, with the cause %v, want %q", tt.name, err, failure.Cause, tt.want)
		}
	}
}

func TestOpen_DeniedNetworksWin(t *testing.T) {
	t.Parallel()
	site := runtimetest.NewSite(t, func(http.ResponseWriter, *http.Request) { t.Error("the site was reached") })
	_, err := get(t, site.Client(t, func(c *remotefile.Config) { c.DenyNetworks = []string{"127.0.0.0/8"} }), site.URL("/"))
	fails(t, err, fetch.AddressNotAllowed)
}

func TestOpen_FollowsThreeRedirectsAndJudgesEach(t *testing.T) {
	t.Parallel()
	targets := map[string]string{}
	site := runtimetest.NewSite(t, func(w http.ResponseWriter, r *http.Request) {
		if target, ok := targets[r.URL.Path]; ok {
			w.Header().Set("Location", target)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	})
	targets["/1"], targets["/2"], targets["/3"], targets["/4"] = "/2", "3", site.URL("/4"), "/5"
	client := site.Client(t)
	if _, err := get(t, client, site.URL("/2")); err != nil {
		t.Error(err)
	}
	_, err := get(t, client, site.URL("/1"))
	fails(t, err, fetch.RedirectNotAllowed)
	for _, target := range []string{"", "http://" + site.Address + "/", "https://user@" + site.Address + "/", "https://u:p@" + site.Address + "/", "https://" + runtimetest.Host + ":22/",
		"ftp://" + site.Address + "/", "https:///", "//127.0.0.2:22/", site.Named("127.0.0.2", "/"), "https://[::1]/", "data:,x", "file:///etc/passwd", "https://%zz/"} {
		targets["/"] = target
		_, err := get(t, client, site.URL("/"))
		fails(t, err, fetch.RedirectNotAllowed)
	}
	if trapped := site.Trapped.Load(); trapped != 0 {
		t.Errorf("%d connections to an address that is not allowed", trapped)
	}
}

func TestOpen_FailsByACodeOfTheClosedSet(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	hold := func(r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
	drip := func(w http.ResponseWriter, r *http.Request) {
		tick := time.NewTicker(10 * time.Millisecond) //nolint:forbidigo // the pace of a slow server
		defer tick.Stop()
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte("x")); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-tick.C:
			case <-release:
				return
			}
		}
	}
	for name, tt := range map[string]struct {
		code   fetch.Code
		serve  http.HandlerFunc
		change func(*remotefile.Config)
	}{
		"not found":       {"status_404", http.NotFound, nil},
		"a failure":       {"status_503", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, nil},
		"a part":          {"status_206", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPartialContent) }, nil},
		"another choice":  {"status_300", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMultipleChoices) }, nil},
		"compressed":      {fetch.UnsupportedEncoding, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Encoding", "gzip") }, nil},
		"a huge header":   {fetch.InvalidResponse, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 64<<10)) }, nil},
		"no header":       {fetch.Timeout, func(_ http.ResponseWriter, r *http.Request) { hold(r) }, func(c *remotefile.Config) { c.HeaderTimeout = 200 * time.Millisecond }},
		"a stall":         {fetch.Timeout, func(w http.ResponseWriter, r *http.Request) { _ = http.NewResponseController(w).Flush(); hold(r) }, func(c *remotefile.Config) { c.StallTimeout = 100 * time.Millisecond }},
		"a drip":          {fetch.Timeout, drip, func(c *remotefile.Config) { c.StallTimeout, c.MinRate = 200*time.Millisecond, 1<<20 }},
		"an endless file": {fetch.Timeout, drip, func(c *remotefile.Config) { c.Timeout = time.Second }},
		"a short file": {fetch.Incomplete, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("x"))
		}, nil},
		"a short chunk": {fetch.Incomplete, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := runtimetest.NewSite(t, tt.serve)
			change := tt.change
			if change == nil {
				change = func(*remotefile.Config) {}
			}
			_, err := get(t, site.Client(t, change), site.URL("/?token=1"))
			fails(t, err, tt.code)
		})
	}
}

// A server that accepts the connection and says nothing would keep a job until the time for the whole file is over.
func TestOpen_BoundsTheHandshake(t *testing.T) {
	t.Parallel()
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	port := silent.Addr().(*net.TCPAddr).Port
	site := runtimetest.NewSite(t, http.NotFound)
	client := site.Client(t, func(c *remotefile.Config) {
		c.Ports, c.HeaderTimeout, c.Timeout = append(c.Ports, port), 100*time.Millisecond, 10*time.Second
	})
	_, err = get(t, client, fmt.Sprintf("https://%s:%d/", runtimetest.Host, port))
	fails(t, err, fetch.Timeout)
	if err == nil || !strings.Contains(err.Error(), "did not answer in time") {
		t.Errorf("got %v, which is not of the handshake", err)
	}
}

func TestOpen_VerifiesTheServer(t *testing.T) {
	t.Parallel()
	site := runtimetest.NewSite(t, func(http.ResponseWriter, *http.Request) { t.Error("the site was reached") })
	site.Resolve("files.example.net", "127.0.0.1")
	_, err := get(t, site.Client(t), site.Named("files.example.net", "/"))
	fails(t, err, fetch.TLSFailed)
	deps := site.Deps()
	deps.Roots = nil
	client, err := remotefile.New(site.Config(), deps)
	must(t, err)
	_, err = get(t, client, site.URL("/"))
	fails(t, err, fetch.TLSFailed)
	working := site.Client(t)
	site.Server.Close()
	_, err = get(t, working, site.URL("/"))
	fails(t, err, fetch.Unreachable)
}

// endsWithRequest is the body of a server that ends the file when its client ends the request.
type endsWithRequest struct{ ctx context.Context }

func (b endsWithRequest) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, io.EOF
}

func (endsWithRequest) Close() error { return nil }

// A part of a file was taken for the whole: the client announces the end of the request in TLS before it closes the
// connection, and what the server sends in answer could be the end of a file of unknown length.
func TestBody_IsNotCompleteOnceTheRequestHasEnded(t *testing.T) {
	t.Parallel()
	revoked := errors.New("the key was revoked")
	for name, tt := range map[string]struct {
		config remotefile.Config
		revoke bool
		want   func(t *testing.T, err error)
	}{
		"by a stall":  {remotefile.Config{StallTimeout: time.Second, Timeout: time.Hour}, false, func(t *testing.T, err error) { t.Helper(); fails(t, err, fetch.Timeout) }},
		"by its time": {remotefile.Config{StallTimeout: time.Hour, Timeout: time.Second}, false, func(t *testing.T, err error) { t.Helper(); fails(t, err, fetch.Timeout) }},
		"by its caller": {remotefile.Config{StallTimeout: time.Hour, Timeout: time.Hour}, true, func(t *testing.T, err error) {
			t.Helper()
			if !errors.Is(err, revoked) {
				t.Errorf("got %v", err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				if tt.revoke {
					time.AfterFunc(time.Second, func() { cancel(revoked) })
				}
				file := remotefile.NewBody(ctx, func(ctx context.Context) io.ReadCloser { return endsWithRequest{ctx} }, tt.config)
				_, err := io.ReadAll(file)
				tt.want(t, err)
				if err := file.Close(); err != nil {
					t.Error(err)
				}
				cancel(nil)
			})
		})
	}
}

// The caller ends a download, for example because the account was suspended: that is no failure of
// the server.
func TestOpen_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	site := runtimetest.NewSite(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte("x"), 10))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	file, err := site.Client(t).Open(ctx, site.URL("/"))
	must(t, err)
	defer func() { _ = file.Body.Close() }()
	if _, err := io.ReadFull(file.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	why := errors.New("suspended")
	cancel(why)
	if _, err := file.Body.Read(make([]byte, 1)); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}
