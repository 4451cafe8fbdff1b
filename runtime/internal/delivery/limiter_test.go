package delivery

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/ratelimit"
)

func network(text string) netip.Prefix { return ratelimit.ClientPrefix(netip.MustParseAddr(text)) }

func testLimiter(t *testing.T, cfg Config) *downloadLimiter {
	t.Helper()
	l, err := newDownloadLimiter(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDownloadLimiter_NamesTheBoundThatIsReached(t *testing.T) {
	t.Parallel()
	l := testLimiter(t, Config{MaxDownloads: 4, DownloadPerClientPercent: 50})
	one, two, three := network("192.0.2.1"), network("192.0.2.2"), network("2001:db8::1")
	for _, tt := range []struct {
		from     netip.Prefix
		rejected string
	}{
		{one, ""},
		{one, ""},
		{one, "from this address"},
		{two, ""},
		{three, ""},
		{three, "at once"},
		{one, "at once"}, // the limit of the process is checked first
	} {
		err := l.Acquire(tt.from)
		if (err != nil) != (tt.rejected != "") || err != nil && (!fault.Is(err, fault.Busy) || !strings.HasSuffix(fault.From(err).Public, tt.rejected)) {
			t.Errorf("%s: %v, want %q", tt.from, err, tt.rejected)
		}
	}
	l.Release(one)
	if err := l.Acquire(three); err != nil {
		t.Errorf("after a release: %v", err)
	}
	for _, from := range []netip.Prefix{one, two, three, three} {
		l.Release(from)
	}
	if l.inFlight() != 0 {
		t.Errorf("%d slots are held without a download", l.inFlight())
	}
}

func TestDownloadLimiter_GrantsEachClientAtLeastOneSlot(t *testing.T) {
	t.Parallel()
	l := testLimiter(t, Config{MaxDownloads: 3, DownloadPerClientPercent: 1})
	if err := l.Acquire(network("192.0.2.1")); err != nil {
		t.Error(err)
	}
	if err := l.Acquire(network("192.0.2.1")); err == nil {
		t.Error("more slots than its bound")
	}
}

func TestDownloadLimiter_CountsWithoutALimit(t *testing.T) {
	t.Parallel()
	l := testLimiter(t, Config{})
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			if err := l.Acquire(network("192.0.2.1")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if l.inFlight() != 1000 {
		t.Errorf("%d are counted", l.inFlight())
	}
}

func TestDownload_ReleasesItsSlotOnEveryOutcome(t *testing.T) {
	t.Parallel()
	data := make([]byte, 1_000_000)
	for name, objects := range map[string]*stored{
		"whole": {data: data}, "cut short": {data: data, breakAt: 700_000}, "not opened": {data: data, fail: fault.New(fault.Unavailable, "down")},
		"missing": {data: data, fail: fault.Wrap(errors.New("no such key"), fault.NotFound, "")},
	} {
		d := newDelivery(t, publicItem(len(data)), objects)
		d.downloads = testLimiter(t, Config{MaxDownloads: 1, DownloadPerClientPercent: 100})
		router := chi.NewRouter()
		d.Mount(router)
		for _, ranges := range []string{"", "bytes=10-900000", "bytes=0-10,500000-900000"} {
			request := httptest.NewRequest(http.MethodGet, "/media/file/"+uuid.UUID{5}.String()+"/original/a", nil)
			request.Header.Set("Range", ranges)
			recorder := httptest.NewRecorder()
			func() {
				defer func() { _ = recover() }() // how a body that breaks is cut
				router.ServeHTTP(recorder, request)
			}()
			if recorder.Code == http.StatusTooManyRequests || d.downloads.inFlight() != 0 {
				t.Errorf("%s, %q: %d, and %d slots are held", name, ranges, recorder.Code, d.downloads.inFlight())
			}
		}
	}
}

func TestDownload_WithoutASlotSendsNothingToTheObjectStore(t *testing.T) {
	t.Parallel()
	objects := &stored{data: make([]byte, 1000)}
	d := newDelivery(t, publicItem(1000), objects)
	d.downloads = testLimiter(t, Config{MaxDownloads: 1, DownloadPerClientPercent: 100})
	if err := d.downloads.Acquire(network("192.0.2.1")); err != nil {
		t.Fatal(err)
	}
	router := chi.NewRouter()
	d.Mount(router)
	for _, ranges := range []string{"", "bytes=10-90", "bytes=0-10,50-90"} {
		request := httptest.NewRequest(http.MethodGet, "/media/file/"+uuid.UUID{5}.String()+"/original/a", nil)
		request.Header.Set("Range", ranges)
		recorder := httptest.NewRecorder()
		router.ServeHTTP(recorder, request)
		if recorder.Code != http.StatusTooManyRequests || objects.opened != 0 {
			t.Errorf("%q: %d after %d requests to the object store", ranges, recorder.Code, objects.opened)
		}
	}
}

func TestConfigValidate_RejectsDownloadBounds(t *testing.T) {
	t.Parallel()
	good := Config{TTL: 1e9, Mode: Stream, MaxDownloads: 1, DownloadPerClientPercent: 1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Config){
		"SERVICE_MAX_DOWNLOADS must be from 0 to 1000000, not -1":            func(c *Config) { c.MaxDownloads = -1 },
		"SERVICE_MAX_DOWNLOADS must be from 0 to 1000000, not 1000001":       func(c *Config) { c.MaxDownloads = 1_000_001 },
		"SERVICE_DOWNLOAD_PER_CLIENT_PERCENT must be from 1 to 100, not 0":   func(c *Config) { c.DownloadPerClientPercent = 0 },
		"SERVICE_DOWNLOAD_PER_CLIENT_PERCENT must be from 1 to 100, not 101": func(c *Config) { c.DownloadPerClientPercent = 101 },
	} {
		cfg := good
		change(&cfg)
		if err := cfg.Validate(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
