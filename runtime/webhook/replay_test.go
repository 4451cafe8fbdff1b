package webhook

import (
	"fmt"
	"testing"

	"mediastack.dev/runtime/journal"
)

func TestReplayReport_SaysWhatIsNotSent(t *testing.T) {
	t.Parallel()
	event := func(id int64, kind journal.Type) Found {
		return Found{Event: journal.Event{Position: journal.Position{Epoch: 1, ID: id}, Type: kind}}
	}
	sealed := Selection{Types: []journal.Type{journal.MediaSealed}}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("1-%d", 9_000_000_000_000_000_000+i))
	}
	for name, c := range map[string]struct {
		asked []string
		found []Found
		by    Selection
		want  string
	}{
		"all":              {[]string{"1-7", "1-8"}, []Found{event(7, journal.MediaSealed), event(8, journal.MediaDeleted)}, Selection{}, ""},
		"one twice":        {[]string{"1-7", "1-7"}, []Found{event(7, journal.MediaSealed)}, sealed, ""},
		"one is unknown":   {[]string{"1-9", "1-7"}, []Found{event(7, journal.MediaSealed)}, sealed, "1 of 2 events are sent again; the journal does not have 1-9"},
		"one not selected": {[]string{"1-7", "1-8"}, []Found{event(7, journal.MediaSealed), event(8, journal.MediaDeleted)}, sealed, "1 of 2 events are sent again; the webhook does not select 1-8"},
		"both, and one twice": {[]string{"1-9", "1-7", "1-8", "1-9"}, []Found{event(7, journal.MediaSealed), event(8, journal.MediaDeleted)}, sealed,
			"1 of 3 events are sent again; the journal does not have 1-9; the webhook does not select 1-8"},
		"many": {many, nil, sealed, "0 of 100 events are sent again; the journal does not have 1-9000000000000000000, 1-9000000000000000001, 1-9000000000000000002, 1-9000000000000000003, 1-9000000000000000004 and 95 more"},
	} {
		if got := ReplayReport(c.asked, c.found, c.by); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
