package go_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	mediastack "mediastack.dev/clients/go"
	"mediastack.dev/clients/go/api"
	"mediastack.dev/hack/test/clients/clienttest"
)

// The filters by words and by what a file says of itself, and what there is to filter by.
func testSearch(t *testing.T, f *fixture) {
	const group = "go search"
	upload := func(content []byte, name, caption string, metadata map[string]string) string {
		item, err := f.client.Upload(t.Context(), bytes.NewReader(content), mediastack.UploadOptions{FileName: name, Caption: caption, Group: group, Metadata: metadata, Seal: true})
		must(t, err)
		return item.MediaID
	}
	photo := upload(clienttest.Photo, "turm.jpg", "Straße am Fluss", map[string]string{"album": "Été"})
	text := upload([]byte("notes"), "notes.txt", "", map[string]string{"kind": "text"})
	day := time.Date(2024, 5, 6, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		options mediastack.ListOptions
		want    []string
	}{
		"words without case, accents and ends": {mediastack.ListOptions{Filter: mediastack.Filter{Words: "FLUSS stras ete"}}, []string{photo}},
		"a phrase":                             {mediastack.ListOptions{Filter: mediastack.Filter{Words: `"am fluss"`}}, []string{photo}},
		"a phrase in another order":            {mediastack.ListOptions{Filter: mediastack.Filter{Words: `"fluss am"`}}, nil},
		"a word that is left out":              {mediastack.ListOptions{Filter: mediastack.Filter{Words: "notes -text"}}, nil},
		"a trait":                              {mediastack.ListOptions{Filter: mediastack.Filter{Has: []mediastack.Trait{mediastack.TraitCaption}}}, []string{photo}},
		"no trait":                             {mediastack.ListOptions{Filter: mediastack.Filter{Lacks: []mediastack.Trait{mediastack.TraitCaption}}}, []string{text}},
		"bytes":                                {mediastack.ListOptions{Filter: mediastack.Filter{MaxBytes: 10}}, []string{text}},
		"an orientation":                       {mediastack.ListOptions{Filter: mediastack.Filter{Orientation: api.Square, MinWidth: 8, MaxHeight: 8}}, []string{photo}},
		"a day":                                {mediastack.ListOptions{Filter: mediastack.Filter{CapturedFrom: day, CapturedTo: day.AddDate(0, 0, 1)}}, []string{photo}},
		"another day":                          {mediastack.ListOptions{Filter: mediastack.Filter{CapturedFrom: day.AddDate(0, 0, 1), CapturedTo: day.AddDate(0, 0, 2)}}, nil},
		"a place":                              {mediastack.ListOptions{Filter: mediastack.Filter{Near: "48.858,2.294,500"}}, []string{photo}},
		"another place":                        {mediastack.ListOptions{Filter: mediastack.Filter{Near: "52.52,13.405,500"}}, nil},
		"the order in which they were made":    {mediastack.ListOptions{Sort: api.SortCaptured}, []string{photo, text}},
		"the other order":                      {mediastack.ListOptions{Sort: api.SortMinusCaptured}, []string{text, photo}},
	} {
		c.options.Group = group
		var got []string
		for item, err := range f.client.Items(t.Context(), c.options) {
			must(t, err)
			got = append(got, item.MediaID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s finds %q, not %q", name, got, c.want)
		}
	}
	count, err := f.client.Count(t.Context(), mediastack.Filter{Group: group, Words: "fluss", Near: "48.858,2.294,500"})
	must(t, err)
	item, err := f.client.Get(t.Context(), photo)
	must(t, err)
	if count.Count != 1 || item.CapturedAt == nil || *item.CapturedAt != "2024-05-06T07:08:09+02:00" {
		t.Errorf("%d items, and the photo was made at %v", count.Count, item.CapturedAt)
	}
	var groups, keys []string
	for one, err := range f.client.Groups(t.Context(), "") {
		must(t, err)
		groups = append(groups, fmt.Sprint(one.Group, " ", one.Count))
	}
	all, err := f.client.MetadataKeys(t.Context())
	must(t, err)
	for _, one := range all.Keys {
		keys = append(keys, one.Key)
	}
	if !slices.Contains(groups, group+" 2") || !slices.Contains(keys, "album") || !slices.Contains(keys, "kind") {
		t.Errorf("there are the groups %s and the keys %s", strings.Join(groups, ", "), keys)
	}
}
