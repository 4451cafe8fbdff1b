package rendition_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/delivery"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

// sharpPresets are presets of every account: w1, w2 and so on, each with its width.
type sharpPresets struct{}

// Get implements delivery.Settings.
func (sharpPresets) Get(context.Context, uuid.UUID) (settings.Layers, error) {
	var all []settings.Preset
	for width := 1; width <= 30; width++ {
		all = append(all, settings.Preset{Name: "w" + strconv.Itoa(width), Width: width, Format: settings.FormatWebP})
	}
	return settings.Layers{Tenant: settings.Layer{Pictures: settings.Pictures{Presets: &all}}}, nil
}

// site serves the pictures of a process, through connections with small buffers.
type site struct {
	*world
	files *delivery.Delivery
	addr  string
}

func (w *world) serve(t *testing.T) site {
	t.Helper()
	secret, err := runtimetest.Credentials("a").ServerSecret()
	must(t, err)
	files, err := delivery.New(delivery.Config{TTL: time.Hour, PublicMaxAge: time.Hour, Mode: delivery.Stream}, delivery.Deps{BaseURL: "http://media.test", Secret: secret, Items: w.core.Media, Objects: w.Objects,
		Settings: sharpPresets{}, Renditions: w.service, Images: w.renderer, Now: w.clock.Now, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	router := chi.NewRouter()
	files.Mount(router)
	server := httptest.NewUnstartedServer(router)
	server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		if tcp, ok := conn.(*net.TCPConn); ok && state == http.StateNew {
			_ = tcp.SetWriteBuffer(16 << 10)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return site{w, files, server.Listener.Addr().String()}
}

// read requests the picture of an item with this width, and reads its first byte. The rest is read when the caller reads it.
func (s site) read(t *testing.T, item media.Item, width int) (status int, header http.Header, rest io.ReadCloser) {
	t.Helper()
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 16<<10) })
	}}
	conn, err := dialer.DialContext(t.Context(), "tcp", s.addr)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	address, err := url.Parse(s.files.URLs().PictureURL(item, "w"+strconv.Itoa(width), 1, ""))
	must(t, err)
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: media.test\r\n\r\n", address.RequestURI())
	must(t, err)
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil) //nolint:bodyclose // the connection is closed
	must(t, err)
	if _, err := io.ReadFull(response.Body, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	return response.StatusCode, response.Header, struct {
		io.Reader
		io.Closer
	}{response.Body, conn}
}

// A picture was in memory until its client had read it: slow readers of a few large ones filled the memory of the process.
func TestData_OfSlowReadersIsBounded(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	w := setup(t, func(c *rendition.Config) { c.Jobs = 4 })
	w.renderer.size = size
	s := w.serve(t)
	type of struct {
		tenant
		item media.Item
	}
	account := func(maxStorage int64) of {
		one := w.tenant(t, maxStorage)
		return of{one, w.sealed(t, one.Principal, 500)}
	}
	// Those with room: each of their slow readers gets its picture, and none holds its data.
	var slow []io.ReadCloser
	for range 3 {
		roomy := account(100 << 20)
		for width := 1; width <= 3; width++ {
			status, _, rest := s.read(t, roomy.item, width)
			if status != http.StatusOK {
				t.Errorf("status %d", status)
			}
			slow = append(slow, rest)
		}
	}
	wait.Until(t, "no data are held for nine slow readers", func() bool { return w.service.Held() == 0 && w.renderer.live() == 0 })
	if body, err := io.ReadAll(slow[0]); err != nil || len(body) != size-1 || strings.Trim(string(body), "\x01") != "" {
		t.Errorf("a reader that goes on gets %d bytes, %v", len(body), err)
	}

	// Those without room hold a data slot each, but no account more than its share of two.
	full := account(10_000)
	readers := make([]io.ReadCloser, 2)
	for i := range readers {
		status, _, rest := s.read(t, full.item, 1+i)
		if status != http.StatusOK {
			t.Errorf("status %d", status)
		}
		readers[i] = rest
	}
	w.service.SetDataSlotWait(time.Millisecond) // less than what a slow reader may stall while others wait
	status, header, _ := s.read(t, full.item, 3)
	if status != http.StatusTooManyRequests || header.Get("Retry-After") == "" {
		t.Errorf("a third picture while two are sent is answered %d %v", status, header)
	}
	if held := w.service.Held(); held != 2 {
		t.Errorf("%d data slots are held", held)
	}
	wait.Until(t, "the data of two slow readers is held", func() bool { return w.renderer.live() == 2 })
	for _, room := range []int64{100 << 20, 10_000} { // another account is served meanwhile
		other := account(room)
		status, _, rest := s.read(t, other.item, 1)
		if n, err := io.Copy(io.Discard, rest); status != http.StatusOK || err != nil || n != size-1 {
			t.Errorf("another account: %d, %d bytes, %v", status, n, err)
		}
	}
	// A client that has left frees its data slot.
	must(t, readers[0].Close())
	wait.Until(t, "its data slot is free", func() bool { return w.service.Held() == 1 && w.renderer.live() == 1 })
	status, _, rest := s.read(t, full.item, 3)
	if n, err := io.Copy(io.Discard, rest); status != http.StatusOK || err != nil || n != size-1 {
		t.Errorf("after it left: %d, %d bytes, %v", status, n, err)
	}
	must(t, readers[1].Close())
	wait.Until(t, "all data slots are free", func() bool { return w.service.Held() == 0 && w.renderer.live() == 0 })
}

// Accounts whose slow readers hold all data slots do not keep others out for as long as they like.
func TestData_OfSlowReadersIsGivenToThoseWhoWait(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *rendition.Config) { c.Jobs = 2 })
	w.renderer.size = 8 << 20
	s := w.serve(t)
	for range 2 { // each has its share of one data slot
		full := w.tenant(t, 10_000)
		status, _, rest := s.read(t, w.sealed(t, full.Principal, 500), 1)
		if status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
		go func() { // a KiB at a time
			for tick := time.Tick(50 * time.Millisecond); ; <-tick { //nolint:forbidigo // the pace of a slow reader
				if _, err := io.ReadFull(rest, make([]byte, 1<<10)); err != nil {
					return
				}
			}
		}()
	}
	wait.Until(t, "both hold a data slot", func() bool { return w.service.Held() == 2 })
	other := w.tenant(t, 100<<20)
	item := w.sealed(t, other.Principal, 500)
	if status, _, _ := s.read(t, item, 1); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
}

// live returns how many of the pictures that were made are in memory.
func (r *renderer) live() int64 {
	runtime.GC()
	return r.made.Load() - r.collected.Load()
}

// All requests of one job share its data: the last one that releases them frees the data slot, however the others end.
func TestRelease_OfTheLastRequestFreesTheDataSlot(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *rendition.Config) { c.Jobs = 4 })
	one := w.tenant(t, 10_000)
	item := w.sealed(t, one.Principal, 9_500) // no room
	results := make([]rendition.Result, 3)
	w.renderer.gate = make(chan struct{})
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			var err error
			if results[i], err = w.service.Get(t.Context(), item, one.owner, of("a", 1)); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Until(t, "all wait for one job", func() bool { return w.service.Waiting() == len(results) })
	close(w.renderer.gate)
	all.Wait()
	for i, result := range results {
		if held := w.service.Held(); held != 1 || result.Stored() || len(result.Data) != w.renderer.size {
			t.Errorf("before release %d: %d data slots, %+v", i, held, result)
		}
		result.Release()
		result.Release()
	}
	if held := w.service.Held(); held != 0 {
		t.Errorf("%d data slots are held in the end", held)
	}
	jobs(t, 1, w)
	w.balanced(t, one)
}

// Requests that end at any moment, errors and stored results leave no data slot held.
func TestRelease_LeavesNoDataSlotHeld(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *rendition.Config) { c.Jobs, c.CacheEntries, c.FailureTTL = 3, 0, 0 })
	w.renderer.size = 400 << 10 // dropped when it is stored
	w.renderer.fails = func(recipe media.Recipe) error {
		if recipe.Width%5 == 0 {
			return fault.New(fault.UnsupportedType, "broken")
		}
		return nil
	}
	type of2 struct {
		tenant
		item media.Item
	}
	var tenants []of2
	for _, room := range []int64{10_000, 10_000, 2 << 20} {
		one := w.tenant(t, room)
		tenants = append(tenants, of2{one, w.sealed(t, one.Principal, 500)})
	}
	concurrently(12, func(i int) {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		for range 20 {
			one := tenants[random.IntN(len(tenants))]
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(20_000))*time.Microsecond)
			if random.IntN(3) == 0 {
				ctx = t.Context()
			}
			result, err := w.service.Get(ctx, one.item, one.owner, of("a", 1+random.IntN(12)))
			if held := w.service.Held(); held > 3 {
				t.Errorf("%d data slots are held", held)
			}
			if err == nil && !result.Stored() && result.Data == nil {
				t.Error("a result without bytes")
			}
			if err == nil && result.Stored() && result.Data != nil {
				t.Errorf("%d bytes are in memory though they are stored", len(result.Data))
			}
			result.Release()
			cancel()
		}
	})
	wait.Until(t, "all data slots are free", func() bool { return w.service.Held() == 0 && w.renderer.live() == 0 })
	for _, one := range tenants {
		w.balanced(t, one.tenant)
	}
}

// A result without data needs no release, and has it all the same.
func TestRelease_IsForEveryResult(t *testing.T) {
	t.Parallel()
	rendition.Result{}.Release()
	released := 0
	result := rendition.Result{}.WithRelease(func() { released++ })
	result.Release()
	if copied := result; released == 1 {
		copied.Release()
	}
	if released != 1 {
		t.Errorf("released %d times", released)
	}
}
