package webfiles_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

// The days of the filter are those of the reader, if the page says when they begin and end.
func TestFilter_DaysOfTheReader(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t)
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	before := time.Now().UTC()
	rt.Item(t, w, tenant, "today.txt", "x", true)
	after := time.Now().UTC()
	const east, west, day = 12 * time.Hour, -12 * time.Hour, 24 * time.Hour
	// begins returns the day of a time in a zone, and when it begins.
	begins := func(at time.Time, zone time.Duration) (date string, begin time.Time) {
		local := at.Add(zone).Truncate(day)
		return local.Format(time.DateOnly), local.Add(-zone)
	}
	text := func(at time.Time) string { return at.Format("2006-01-02T15:04:05.000Z") }
	eastern, easternBegin := begins(before, east)
	western, westernBegin := begins(after, west)
	next, nextBegin := begins(after.Add(day), east)
	for what, tt := range map[string]struct {
		query url.Values
		found bool
	}{
		"from today in the east":     {url.Values{"from": {eastern}, "fromAt": {text(easternBegin)}}, true},
		"until today in the west":    {url.Values{"to": {western}, "toAt": {text(westernBegin.Add(day))}}, true},
		"from tomorrow in the east":  {url.Values{"from": {next}, "fromAt": {text(nextBegin)}}, false},
		"from a day that is not it":  {url.Values{"from": {after.Add(3 * day).Format(time.DateOnly)}, "fromAt": {text(easternBegin)}}, false},
		"from a time that is none":   {url.Values{"from": {after.Add(3 * day).Format(time.DateOnly)}, "fromAt": {"x"}}, false},
		"until a day without a time": {url.Values{"to": {after.Add(3 * day).Format(time.DateOnly)}}, true},
	} {
		tt.query.Set("request", p.Fields().Get("request"))
		tt.query.Set("account", tenant.Account.ID.String())
		got := b.Get("/account/files?" + tt.query.Encode())
		if got.StatusCode != http.StatusOK || strings.Contains(got.Text, "today.txt") != tt.found {
			t.Errorf("%s: %d, found %t", what, got.StatusCode, !tt.found)
		}
	}
}

// A quotation mark that is alone is a part of the text.
func TestFilter_AQuotationMarkAlone(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t)
	rt.Item(t, w, tenant, "6 nails.txt", "x", true)
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	for _, words := range []string{`6" nails`, `"6 nails`, `nails"`, `"6 nails" "`, `"`} {
		query := url.Values{"request": {p.Fields().Get("request")}, "account": {tenant.Account.ID.String()}, "q": {words}}
		b.Get("/account/files?"+query.Encode()).Says(t, http.StatusOK, "6 nails.txt")
	}
}
