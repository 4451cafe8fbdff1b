package rest_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
)

// A user finds what they have described, by any of its words, in lists, counts and totals.
func TestSearch_FindsWordsInListsCountsAndTotals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.tenant(t, "one"), w.tenant(t, "other")
	rt := w.runtime(t)
	for _, file := range []struct{ name, caption, group, metadata string }{
		{"IMG_0123.txt", "Sunset at the Café de Flore", "Paris 2026", `{"people": "Zoë, Ana"}`},
		{"notes.txt", "Golden Gate in fog", "", `{"place": "San Francisco"}`},
		{"plan.txt", "", "", `{}`},
	} {
		rt.sealed(t, one.Key, field("caption", file.caption), field("group", file.group), field("metadata", file.metadata), filePart(file.name, []byte("12345")))
		rt.sealed(t, other.Key, field("caption", "their "+file.caption), filePart(file.name, []byte("1")))
	}
	check := func(t *testing.T, query string, want ...string) {
		t.Helper()
		got, names := rt.named(t, one, query)
		if !slices.Equal(names, want) && len(names)+len(want) > 0 {
			t.Errorf("%s: %q, want %q", query, names, want)
		}
		if got.Header.Get("X-Total-Count") != "" {
			t.Errorf("%s: X-Total-Count is %q", query, got.Header.Get("X-Total-Count"))
		}
		if counted := decode[api.Count](t, rt.do(t, http.MethodGet, "/media/get/count?"+query, key(one.Key))); counted != (api.Count{Count: int64(len(want))}) {
			t.Errorf("%s: counted %+v", query, counted)
		}
		if total := decode[api.Totals](t, rt.do(t, http.MethodGet, "/media/get/size?"+query, key(one.Key))); total.Storage != int64(5*len(want)) {
			t.Errorf("%s: %d bytes", query, total.Storage)
		}
	}
	words := func(phrase string) string { return "q=" + url.QueryEscape(phrase) }
	for phrase, want := range map[string][]string{
		"CAFE sun": {"IMG_0123.txt"}, "flore café": {"IMG_0123.txt"}, `"golden gate"`: {"notes.txt"}, `"gate golden"`: nil, `"gat"`: nil, "gat": {"notes.txt"},
		"zoe": {"IMG_0123.txt"}, "paris": {"IMG_0123.txt"}, "0123": {"IMG_0123.txt"}, "txt -fog -sunset": {"plan.txt"}, "-img": {"plan.txt", "notes.txt"}, "their": nil, "people": nil,
	} {
		check(t, words(phrase), want...)
	}
	check(t, words("txt")+"&has=caption", "notes.txt", "IMG_0123.txt")
	if _, names := rt.named(t, one, words("txt")+"&sort=name"); !slices.Equal(names, []string{"IMG_0123.txt", "notes.txt", "plan.txt"}) {
		t.Errorf("sorted by name: %q", names)
	}
	check(t, "lacks=caption,group", "plan.txt")
	check(t, "minBytes=6")
	check(t, "minBytes=5&maxBytes=5&has=group", "IMG_0123.txt")
	check(t, "orientation=square&color=%23ffffff")
	got := rt.do(t, http.MethodPost, "/media/get", key(one.Key), text(`{"q": "\"golden gate\" -sunset", "lacks": "group", "minBytes": 1}`))
	if items := decode[[]api.MediaItem](t, got); len(items) != 1 || items[0].OriginalFileName != "notes.txt" {
		t.Errorf("a POST finds %+v", items)
	}
	// The link of the next page has the search.
	first, names := rt.named(t, one, words(`txt -"golden gate"`)+"&limit=1&has=&maxBytes=9")
	next := strings.TrimSuffix(strings.Split(first.Header.Get("Link"), "<")[2], `>; rel="next"`)
	_, rest := rt.named(t, one, strings.SplitN(next, "?", 2)[1])
	if !slices.Equal(append(names, rest...), []string{"plan.txt", "IMG_0123.txt"}) {
		t.Errorf("the pages have %q and %q", names, rest)
	}
	for query, says := range map[string]string{
		words(strings.Repeat("word ", 1000)): "q must be at most 500 characters",
		words(strings.Repeat("a ", 17)):      "q must have at most 16 words",
		words(`"open`):                       "without a closing one",
		words("*:&|!()"):                     "q must have a letter or a digit",
		"has=metadata":                       "has must be caption",
		"minWidth=x":                         "minWidth must be an integer",
		"minWidth=-1":                        "minWidth must be 0 or more",
		"minBytes=2&maxBytes=1":              "minBytes must not be more than maxBytes",
		"orientation=wide":                   "orientation must be",
		"color=red":                          "color must be six",
		"query=x":                            "unknown parameter",
	} {
		rt.do(t, http.MethodGet, "/media/get?"+query, key(one.Key)).invalid(t, says)
		if !strings.HasPrefix(query, "query") {
			rt.do(t, http.MethodGet, "/media/get/count?"+query, key(one.Key)).invalid(t, says)
		}
	}
	rt.do(t, http.MethodPost, "/media/get", key(one.Key), text(`{"q": "`+strings.Repeat("word ", 10_000)+`"}`)).invalid(t, "q must be at most 500 characters")

	groups := rt.do(t, http.MethodGet, "/media/groups", key(one.Key))
	if got := decode[api.GroupList](t, groups); !slices.Equal(got, api.GroupList{{Group: "Paris 2026", Count: 1}}) || groups.Header.Get("X-Next-Cursor") != "" {
		t.Errorf("the groups are %+v", got)
	}
	if got := decode[api.GroupList](t, rt.do(t, http.MethodGet, "/media/groups?access=public", key(one.Key))); len(got) != 0 {
		t.Errorf("the groups with public items are %+v", got)
	}
	if got := decode[api.MetadataKeys](t, rt.do(t, http.MethodGet, "/media/metadata/keys", key(one.Key))); !slices.Equal(got.Keys, []api.MetadataKeyCount{{Key: "people", Count: 1}, {Key: "place", Count: 1}}) || got.AtLeast {
		t.Errorf("the keys are %+v", got)
	}
	for path, says := range map[string]string{"/media/groups?limit=0": "limit must be from 1 to 1000", "/media/groups?after=x": "after must be the cursor", "/media/groups?access=all": "access must be", "/media/metadata/keys?limit=1": "unknown parameter"} {
		rt.do(t, http.MethodGet, path, key(one.Key)).invalid(t, says)
	}

	// What is searched is a setting of the account, which applies to what is there.
	w.Change(t, one, func(s *account.Spec) { s.Search = account.Search{Keys: []string{"place"}, Language: "english"} })
	wait.Until(t, "the setting is in force", func() bool {
		_, names := rt.named(t, one, words("zoe"))
		return len(names) == 0
	})
	check(t, words("francisco"), "notes.txt")
	check(t, words("sunsets"), "IMG_0123.txt")
}
