package delivery

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// at returns a Delivery of one private item with the clock *now.
func at(t *testing.T, now *time.Time, ttl, step time.Duration) (*Delivery, media.Item) {
	t.Helper()
	item := publicItem(1)
	item.Access = media.Private
	secret, err := keys.ParseSecret(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("s"), 32)), "")
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(Config{TTL: ttl, Step: step, PublicMaxAge: time.Minute, Mode: Stream}, Deps{BaseURL: "http://media.test", Secret: secret, Items: one{item}, Objects: &stored{data: []byte("x")},
		Now: func() time.Time { return *now }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return d, item
}

// get requests a URL and returns the status and Cache-Control.
func get(d *Delivery, address string) (status int, cache string) {
	router := chi.NewRouter()
	d.Mount(router)
	recorder := httptest.NewRecorder()
	router.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, address, nil))
	return recorder.Code, recorder.Header().Get("Cache-Control")
}

func TestURL_StaysTheSameWithinAStep(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct{ ttl, step time.Duration }{
		"the defaults":               {time.Hour, time.Hour},
		"a step shorter than TTL":    {time.Hour, 10 * time.Minute},
		"a step longer than TTL":     {time.Minute, time.Hour},
		"a step that divides no day": {time.Hour, 7 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := start
			d, item := at(t, &now, tt.ttl, tt.step)
			made := map[string]time.Time{} // the first time of each URL
			for ; now.Before(start.Add(3 * tt.step)); now = now.Add(tt.step / 20) {
				address := d.URLs().URL(item, item.File(), settings.OriginalsPublic)
				if again := d.URLs().URL(item, item.File(), settings.OriginalsPublic); again != address {
					t.Fatalf("two URLs at one time: %s and %s", address, again)
				}
				if first, ok := made[address]; ok && now.Sub(first) >= tt.step {
					t.Errorf("a URL is returned for longer than a step: %s", address)
				} else if !ok {
					made[address] = now
				}
			}
			if len(made) > 4 {
				t.Errorf("%d URLs in three steps", len(made))
			}
		})
	}
}

func TestAddress_LivesAtLeastTTLAndAtMostAStepLonger(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ ttl, step time.Duration }{
		{time.Hour, time.Hour}, {time.Hour, 0}, {time.Second, 24 * time.Hour}, {90 * time.Second, time.Minute}, {7 * 24 * time.Hour, 24 * time.Hour}, {1500 * time.Millisecond, 0},
	} {
		for _, offset := range []time.Duration{0, 1, 999 * time.Millisecond, time.Second, 29 * time.Minute, time.Hour - 1, time.Hour, time.Hour + 1} {
			now := start.Add(offset)
			made := now
			d, item := at(t, &now, tt.ttl, tt.step)
			address := d.URLs().URL(item, item.File(), settings.OriginalsPublic)
			parsed, err := url.Parse(address)
			if err != nil {
				t.Fatal(err)
			}
			expires, _ := strconv.ParseInt(parsed.Query().Get("expires"), 10, 64)
			life := time.Unix(expires, 0).Sub(made)
			if longest := tt.ttl + max(tt.step, time.Second); life < tt.ttl || life >= longest {
				t.Errorf("TTL %s, step %s: a URL of %s past the hour is valid for %s", tt.ttl, tt.step, offset, life)
			}
			for _, left := range []time.Duration{life, tt.ttl, time.Second, 1} {
				if left > life {
					continue
				}
				now = time.Unix(expires, 0).Add(-left)
				if status, cache := get(d, address); status != http.StatusOK || cache != "private, max-age="+strconv.Itoa(int(left/time.Second)) {
					t.Errorf("%s before its end: %d %s", left, status, cache)
				}
			}
			now = time.Unix(expires, 0)
			if status, cache := get(d, address); status != http.StatusForbidden || strings.Contains(cache, "max-age") {
				t.Errorf("at its end: %d %s", status, cache)
			}
		}
	}
}

func TestConfig_BoundsTheStep(t *testing.T) {
	t.Parallel()
	for step, ok := range map[time.Duration]bool{
		-time.Second: false, 0: true, time.Millisecond: false, time.Second: true, 1500 * time.Millisecond: false, 24 * time.Hour: true, 24*time.Hour + time.Second: false,
	} {
		err := Config{TTL: time.Hour, Step: step, Mode: Stream}.Validate()
		if ok != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), "SERVICE_DELIVERY_STEP must be from 0s to 24h") {
			t.Errorf("%s: %v", step, err)
		}
	}
}

// The payload of a signature is that of the URLs that clients keep.
func TestURL_SignsTheObjectAndTheExpiry(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	d, item := at(t, &now, time.Hour, time.Hour)
	expires := now.Add(time.Hour).Unix()
	mac := d.URLs().signer.Sign(fmt.Appendf(nil, "read\n%s\n%s\n%d", item.ID, media.Original, expires))
	want := fmt.Sprintf("http://media.test/media/file/%s/original/%s?expires=%d&signature=%s", item.ID, url.PathEscape(item.FileName), expires, keys.Encode(mac))
	if got := d.URLs().URL(item, item.File(), settings.OriginalsPublic); got != want {
		t.Errorf("the URL is %s, not %s", got, want)
	}
}
