package webhook_test

import (
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/webhook"
)

// fullEvent has every member.
func fullEvent() (journal.Event, webhook.About) {
	return journal.Event{Position: journal.Position{Epoch: 3, Transaction: 9, ID: 4711, At: time.Date(2026, 11, 28, 12, 0, 0, 123_456_000, time.UTC)}, Type: journal.MediaUpdated,
			AccountID: uuid.New(), AppID: uuid.New(), ItemID: uuid.New(), Sequence: 7, Group: "album", ApprovalID: uuid.New(),
			Actor: account.Actor{Kind: account.ActorLogin, ID: "x", Name: "n", Email: "e", AskedBy: &account.Actor{Kind: account.ActorKey, ID: "y", Name: "o", Email: "f"}}, Fields: []string{"caption"}, Percent: 80},
		webhook.About{Account: webhook.Account{ID: uuid.New(), Namespace: "team-a", Name: "demo"}, App: "default", Source: "https://media.example.org"}
}

func payload(t *testing.T, format webhook.Format, e journal.Event, about webhook.About) (contentType string, body []byte, decoded map[string]any) {
	t.Helper()
	contentType, body, err := webhook.Payload(format, e, about)
	must(t, err)
	must(t, json.Unmarshal(body, &decoded))
	return contentType, body, decoded
}

// names returns the names of the members of an object, sorted.
func names(object any) []string { return slices.Sorted(maps.Keys(object.(map[string]any))) }

// The data of a payload is the document of GET /events, with the account.
func TestPayload_HasTheMembersOfAnEvent(t *testing.T) {
	t.Parallel()
	want := []string{"account"}
	for field := range reflect.TypeFor[api.Event]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		want = append(want, name)
	}
	slices.Sort(want)
	e, about := fullEvent()
	contentType, _, decoded := payload(t, webhook.Standard, e, about)
	if got := names(decoded["data"]); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := names(decoded); contentType != "application/json" || !slices.Equal(got, []string{"data", "timestamp", "type"}) || decoded["timestamp"] != "2026-11-28T12:00:00.123Z" {
		t.Errorf("%s %v", contentType, decoded)
	}
	of := api.NewEventPage(journal.Page{Events: []journal.Event{e}}, account.App{ID: e.AppID, Name: about.App}).Events[0]
	text, err := json.Marshal(of)
	must(t, err)
	var document map[string]any
	must(t, json.Unmarshal(text, &document))
	data := decoded["data"].(map[string]any)
	delete(data, "account")
	for name, value := range document {
		if !reflect.DeepEqual(data[name], value) {
			t.Errorf("%s is %v, and %v in GET /events", name, data[name], value)
		}
	}
	contentType, _, decoded = payload(t, webhook.CloudEvents, e, about)
	if got := names(decoded); contentType != "application/cloudevents+json" || !slices.Equal(got, []string{"data", "datacontenttype", "id", "sequence", "source", "specversion", "subject", "time", "type"}) {
		t.Errorf("%s %v", contentType, got)
	}
	if decoded["source"] != "https://media.example.org/accounts/"+about.Account.ID.String() || decoded["type"] != "dev.mediastack.media.updated" || decoded["sequence"] != "7" || decoded["subject"] != e.ItemID.String() {
		t.Errorf("%v", decoded)
	}
}

// CloudEvents 1.0 requires specversion, id, source and type. The values are those that the guide names.
func TestPayload_HasTheAttributesOfCloudEvents(t *testing.T) {
	t.Parallel()
	e, about := fullEvent()
	_, _, decoded := payload(t, webhook.CloudEvents, e, about)
	_, _, standard := payload(t, webhook.Standard, e, about)
	for name, want := range map[string]string{
		"specversion": "1.0", "id": e.EventID(), "source": about.Source + "/accounts/" + about.Account.ID.String(), "type": "dev.mediastack.media.updated",
		"datacontenttype": "application/json", "time": "2026-11-28T12:00:00.123Z", "subject": e.ItemID.String(), "sequence": "7",
	} {
		if decoded[name] != want {
			t.Errorf("%s is %v, want %s", name, decoded[name], want)
		}
	}
	if !reflect.DeepEqual(decoded["data"], standard["data"]) {
		t.Errorf("data is %v, and %v in the other format", decoded["data"], standard["data"])
	}
}

// A process in another time zone, and one that reads the event from PostgreSQL again, sends the same bytes.
func TestPayload_IsTheSameInEachTimeZone(t *testing.T) {
	t.Parallel()
	e, about := fullEvent()
	elsewhere := e
	elsewhere.At = e.At.In(time.FixedZone("", 5*60*60+1800))
	for _, format := range []webhook.Format{webhook.Standard, webhook.CloudEvents} {
		_, first, _ := payload(t, format, e, about)
		if _, second, _ := payload(t, format, elsewhere, about); string(first) != string(second) {
			t.Errorf("%s: %s, and %s in another time zone", format, first, second)
		}
	}
}

// What an event does not have is absent.
func TestPayload_OmitsWhatIsAbsent(t *testing.T) {
	t.Parallel()
	e := journal.Event{Position: journal.Position{Epoch: 1, ID: 1, At: time.Now()}, Type: journal.Suspended}
	_, _, decoded := payload(t, webhook.Standard, e, webhook.About{})
	if got := names(decoded["data"]); !slices.Equal(got, []string{"id", "time", "type"}) {
		t.Errorf("%v", got)
	}
	_, _, decoded = payload(t, webhook.CloudEvents, e, webhook.About{Source: "https://media.example.org"})
	if got := names(decoded); !slices.Equal(got, []string{"data", "datacontenttype", "id", "source", "specversion", "time", "type"}) {
		t.Errorf("%v", got)
	}
}

// Standard Webhooks recommends less than 20 kB. The same event has the same bytes.
func TestPayload_IsSmallAndTheSame(t *testing.T) {
	t.Parallel()
	e, about := fullEvent()
	wide := strings.Repeat("\u2028", 255)                                       // six bytes of JSON each
	e.Group, e.Actor.Name, e.Actor.Email = wide, wide, strings.Repeat("&", 254) // as many in JSON
	e.Actor.ID = uuid.NewString()
	e.Epoch, e.ID, e.Sequence = math.MaxInt64, math.MaxInt64, math.MaxInt64
	for range 64 { // more than any change has
		e.Fields = append(e.Fields, strings.Repeat("f", 64))
	}
	about.Account.Namespace, about.Account.Name, about.App, about.Source = strings.Repeat("n", 63), strings.Repeat("n", 63), strings.Repeat("n", 63), "https://"+strings.Repeat("h", 253)
	for _, format := range []webhook.Format{webhook.Standard, webhook.CloudEvents} {
		_, first, _ := payload(t, format, e, about)
		_, second, _ := payload(t, format, e, about)
		if len(first) >= 20_000 || string(first) != string(second) {
			t.Errorf("%s: %d bytes", format, len(first))
		}
	}
}

func TestTestPayload_HasItsType(t *testing.T) {
	t.Parallel()
	_, about := fullEvent()
	for format, part := range map[webhook.Format]string{webhook.Standard: `{"type":"webhook.test",`, webhook.CloudEvents: `"type":"dev.mediastack.webhook.test"`} {
		if _, body, err := webhook.TestPayload(format, "test-1", time.Now(), about); err != nil || !strings.Contains(string(body), part) || !strings.Contains(string(body), `"id":"test-1"`) {
			t.Errorf("%s %v", body, err)
		}
	}
}
