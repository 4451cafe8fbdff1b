package rest_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/media"
)

// invalid checks that a request was rejected with 400, and what the answer says.
func (a answer) invalid(t *testing.T, says string) {
	t.Helper()
	if detail := a.rejected(t, http.StatusBadRequest, "Bad Request"); !strings.Contains(detail, says) {
		t.Errorf("the answer says %q, not %q", detail, says)
	}
}

// named lists with GET, and returns the answer and the file names.
func (rt *runtime) named(t *testing.T, of tenant, query string) (answer, []string) {
	t.Helper()
	got := rt.do(t, http.MethodGet, "/media/get?"+query, key(of.Key))
	got.MustBe(t, http.StatusOK, "%s", query)
	names := []string{}
	for _, item := range decode[[]api.MediaItem](t, got) {
		names = append(names, item.OriginalFileName)
	}
	return got, names
}

func TestFind_FiltersSortsAndCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.tenant(t, "one"), w.tenant(t, "other")
	rt := w.runtime(t)
	var bytes int64
	for _, file := range []struct{ name, data string }{{"Beach 1.txt", "xx"}, {"report.pdf", "%PDF-1.4 x"}, {"beach 2.txt", "x"}, {"other.txt", "xxx"}} {
		rt.sealed(t, one.Key, filePart(file.name, []byte(file.data)), field("group", "g"))
		rt.sealed(t, other.Key, filePart("their "+file.name, []byte(file.data)))
		bytes += int64(len(file.data))
	}
	w.QueryInt(t, `WITH changed AS (UPDATE item SET metadata = '{"color": "red", "a.b": "ü=&"}' WHERE file_name = 'Beach 1.txt' RETURNING 1) SELECT count(*) FROM changed`)
	before := url.QueryEscape(time.Now().Add(-time.Hour).Format(time.RFC3339))
	after := url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339))
	for _, tt := range []struct {
		query string
		want  []string
	}{
		{"name=BEACH", []string{"beach 2.txt", "Beach 1.txt"}},
		{"name=ch&sort=time", []string{"Beach 1.txt", "beach 2.txt"}},
		{"type=text/*&sort=name", []string{"Beach 1.txt", "beach 2.txt", "other.txt"}},
		{"type=APPLICATION/pdf", []string{"report.pdf"}},
		{"sort=-size", []string{"report.pdf", "other.txt", "Beach 1.txt", "beach 2.txt"}},
		{"sort=size&limit=1&page=2", []string{"Beach 1.txt"}},
		{"meta.color=red&meta.a.b=" + url.QueryEscape("ü=&"), []string{"Beach 1.txt"}},
		{"meta.color=blue", []string{}},
		{"from=" + before + "&to=" + after + "&name=report", []string{"report.pdf"}},
		{"from=" + after, []string{}},
		{"name=their", []string{}},
		{"type=text/*&group=none", []string{}},
		{"name=beach&access=private&group=g&type=", []string{"beach 2.txt", "Beach 1.txt"}},
	} {
		got, names := rt.named(t, one, tt.query)
		if !slices.Equal(names, tt.want) {
			t.Errorf("%s: %q, want %q", tt.query, names, tt.want)
		}
		if total := got.Header.Get("X-Total-Count"); (total == "") == strings.HasPrefix(tt.query, "sort") {
			t.Errorf("%s: X-Total-Count is %q", tt.query, total)
		}
		if strings.Contains(tt.query, "sort") || strings.Contains(tt.query, "page") {
			continue
		}
		if counted := decode[api.Count](t, rt.do(t, http.MethodGet, "/media/get/count?"+tt.query, key(one.Key))); counted != (api.Count{Count: int64(len(tt.want))}) {
			t.Errorf("%s: counted %+v", tt.query, counted)
		}
	}
	for body, want := range map[string]int64{
		`{"name": "beach"}`: 3, `{"meta": {"color": "red"}}`: 2, `{"type": "application/pdf"}`: 10, `{"group": "g"}`: bytes, `{"access": "public"}`: 0,
		`{"meta": {}, "name": null}`: bytes,
	} {
		got := decode[api.Totals](t, rt.do(t, http.MethodPost, "/media/get/size", key(one.Key), text(body)))
		if got != (api.Totals{Storage: want, MaxStorage: one.Spec.MaxStorage}) {
			t.Errorf("%s: %+v, want %d", body, got, want)
		}
	}
}

// Every list can be continued by cursor, also one without filters. A cursor is of one list of one app.
func TestFind_CursorsContinueTheirListOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.tenant(t, "one"), w.tenant(t, "other")
	rt := w.runtime(t)
	for _, name := range []string{"c.txt", "a.txt", "b.txt"} {
		rt.sealed(t, one.Key, filePart(name, []byte("x")))
	}
	blog := w.AddApp(t, one, "blog")
	for query, want := range map[string][]string{
		"limit=2":                    {"b.txt", "a.txt", "c.txt"},
		"limit=1&sort=-name":         {"c.txt", "b.txt", "a.txt"},
		"limit=2&type=text%2Fplain":  {"b.txt", "a.txt", "c.txt"},
		"limit=2&access=private":     {"b.txt", "a.txt", "c.txt"},
		"limit=1&sort=size&meta.x=a": {},
	} {
		got, names := rt.named(t, one, query)
		for next := got.Header.Get("X-Next-Cursor"); next != ""; next = got.Header.Get("X-Next-Cursor") {
			if link := got.Header.Get("Link"); !strings.Contains(query, "page") && strings.Contains(link, "after=") != strings.Contains(link, "after="+next) {
				t.Errorf("%s: Link %s does not have the cursor", query, link)
			}
			cursor := "after=" + next
			for _, wrong := range []string{"limit=2&name=x&" + cursor, "sort=size&" + cursor, "group=g&" + cursor, "state=draft&" + cursor} {
				rt.do(t, http.MethodGet, "/media/get?"+wrong, key(one.Key)).invalid(t, "after is the cursor of another list")
			}
			for _, of := range []tenant{other, blog} {
				rt.do(t, http.MethodGet, "/media/get?"+query+"&"+cursor, key(of.Key)).invalid(t, "after is the cursor of another list")
			}
			var more []string
			got, more = rt.named(t, one, query+"&"+cursor)
			names = append(names, more...)
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s: %q, want %q", query, names, want)
		}
	}
}

func TestFind_ListsDraftsOfTheApp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	blog := w.AddApp(t, one, "blog")
	rt := w.runtime(t)
	rt.sealed(t, one.Key, filePart("sealed.txt", []byte("x")))
	rt.upload(t, one.Key, filePart("first.txt", []byte("x")))
	rt.upload(t, one.Key, filePart("second.txt", []byte("x")))
	rt.upload(t, blog.Key, filePart("theirs.txt", []byte("x")))
	got, names := rt.named(t, one, "state=draft")
	if !slices.Equal(names, []string{"second.txt", "first.txt"}) || got.Header.Get("X-Total-Count") != "" {
		t.Errorf("the drafts are %q", names)
	}
	for _, item := range decode[[]api.MediaItem](t, got) {
		if !item.Temp || item.ExpiresAt == nil {
			t.Errorf("%+v is no draft that expires", item)
		}
	}
	if _, names := rt.named(t, one, "state=draft&name=FIRST"); !slices.Equal(names, []string{"first.txt"}) {
		t.Errorf("the drafts of a name are %q", names)
	}
	if _, names := rt.named(t, one, "state=sealed"); !slices.Equal(names, []string{"sealed.txt"}) {
		t.Errorf("the sealed items are %q", names)
	}
}

// Only the tools took dates. The day of `to` is included.
func TestFind_TakesDates(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	rt.sealed(t, one.Key, filePart("today.txt", []byte("x")))
	today := time.Now().UTC()
	date := func(days int) string { return today.AddDate(0, 0, days).Format(time.DateOnly) }
	// It may be the next day by now.
	for query, found := range map[string]bool{
		"from=" + date(0) + "&to=" + date(1): true, "from=" + date(-1) + "&to=" + date(1): true, "to=" + date(-1): false, "from=" + date(2): false,
		"from=" + date(-9) + "&to=" + date(-9): false,
	} {
		if _, names := rt.named(t, one, query); slices.Contains(names, "today.txt") != found {
			t.Errorf("%s: %q", query, names)
		}
	}
	if _, names := rt.named(t, one, "capturedFrom=2024-01-01&capturedTo=2024-12-31"); len(names) != 0 {
		t.Errorf("files without a date taken: %q", names)
	}
}

func TestFind_RejectsBadInputByName(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	for query, says := range map[string]string{
		"type=image":                       "type must be a MIME type",
		"type=*/png":                       "type must be",
		"type=" + strings.Repeat("a", 200): "type must be",
		"name=" + strings.Repeat("n", 256): "name must be at most 255 bytes",
		"name=a%00":                        "name must not contain control characters",
		"name=%ff":                         "name must be UTF-8",
		"from=yesterday":                   "from must be a time as in RFC 3339",
		"to=2026-11-32":                    "to must be a time as in RFC 3339, such as 2026-11-22T18:30:00Z, or a date such as 2026-11-22",
		"to=9999-12-31":                    "to must be a time",
		"from=2026-11-23&to=2026-11-22":    "from must be before to",
		"from=2026-11-22T10:00:00+01:00":   "write + as %2B",
		"type=image/JPG":                   "image/jpg is not a type: write image/jpeg",
		"meta.project=":                    "meta.project must not be empty",
		"meta.=":                           "meta.: a key must have",
		"from=2026-11-22T10:00:00Z&to=2026-11-22T10:00:00Z": "from must be before to",
		"meta.=x":                            "meta.: a key must have",
		"meta.A=x":                           "meta.A: a key must have",
		"meta.a=" + "%00":                    "meta.a must not contain control characters",
		"meta.a=" + strings.Repeat("x", 513): "meta.a must be at most 512 characters",
		"meta.a=1&meta.a=2":                  "meta.a must be sent once",
		"metadata=x":                         `unknown parameter "metadata"`,
		"sort=color":                         "sort must be time, name, size or captured",
		"sort=--size":                        "sort must be",
		"capturedFrom=yesterday":             "capturedFrom must be a time as in RFC 3339",
		"capturedTo=2026-13-01T00:00:00Z":    "capturedTo must be a time as in RFC 3339",
		"capturedFrom=2026-11-22T10:00:00Z&capturedTo=2026-11-22T10:00:00Z": "capturedFrom must be before capturedTo",
		"near=home":                         "near must be a latitude",
		"near=91,0,5":                       "near must be a latitude",
		"near=1,2":                          "near must be a latitude",
		"near=1,2,NaN":                      "near must be a latitude",
		"near=1,2,500001":                   "a radius from 1 to 500000 metres",
		"state=lost":                        "state must be sealed or draft",
		"state=draft&sort=name":             "sort must be time or -time for drafts",
		"after=x":                           "after must be the cursor of a list",
		"after=" + strings.Repeat("A", 600): "after must be the cursor of a list",
		"after=AAAA&page=1":                 "page cannot be combined with after",
		"sort=name&page=102":                "page must be 100 or less",
		"sort=name&limit=101":               "limit must be from 1 to 100",
		"sort=name&page=0":                  "page must be 1 or more",
	} {
		rt.do(t, http.MethodGet, "/media/get?"+query, key(one.Key)).invalid(t, says)
	}
	var many []string
	for _, a := range "abcdefghijklmnopqrstuvwxyz"[:media.MaxMetadataPairs+1] {
		many = append(many, "meta."+string(a)+"=x")
	}
	rt.do(t, http.MethodGet, "/media/get/count?"+strings.Join(many, "&"), key(one.Key)).invalid(t, "at most 24 filters by meta")
	for body, says := range map[string]string{
		`{"meta": "x"}`:         "meta must be an object of strings",
		`{"meta": {"a": 1}}`:    "meta.a must be a string",
		`{"meta": {"a": ""}}`:   "meta.a must not be empty",
		`{"meta": {"a": null}}`: "meta.a must be a string",
		`{"meta": {"b": "x"}}`:  "meta.b must be sent once",
		`{"sort": 1}`:           "sort must be a string",
		`{"meta.a": "x"}`:       `unknown field "meta.a"`,
	} {
		rt.do(t, http.MethodPost, "/media/get?meta.b=1", key(one.Key), text(body)).invalid(t, says)
	}
	for _, path := range []string{"/media/get/count", "/media/get/size"} {
		rt.do(t, http.MethodGet, path+"?meta.project=", key(one.Key)).invalid(t, "meta.project must not be empty")
	}
	rt.do(t, http.MethodGet, "/media/get/size?sort=name", key(one.Key)).invalid(t, `unknown parameter "sort"`)
	rt.do(t, http.MethodGet, "/settings/media/get?meta.a=1", key(one.Key)).invalid(t, `unknown parameter "meta.a"`)
}
