package webhook

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/journal"
)

// About is what a payload says beside the event.
type About struct {
	// Account is that of the event; zero for a test event of a webhook of all accounts.
	Account Account
	// App is the name of the app; empty for an event of the account.
	App string
	// Source is the base URL of the service.
	Source string
}

// Account is the account of an event.
type Account struct {
	ID              uuid.UUID
	Namespace, Name string
}

// Content types of the payloads.
const (
	standardType    = "application/json"
	cloudEventsType = "application/cloudevents+json"
)

// document is the data of a payload: that of an event of GET /events, with its account.
type document struct {
	ID       string           `json:"id"`
	Type     journal.Type     `json:"type"`
	Time     time.Time        `json:"time"`
	Account  *accountDocument `json:"account,omitempty"`
	MediaID  string           `json:"mediaId,omitempty"`
	App      string           `json:"app,omitempty"`
	Sequence int64            `json:"sequence,omitempty"`
	Group    string           `json:"group,omitempty"`
	Actor    *account.Actor   `json:"actor,omitempty"`
	Fields   []string         `json:"fields,omitempty"`
	Percent  int              `json:"percent,omitempty"`
	Approval string           `json:"approvalId,omitempty"`
}

type accountDocument struct {
	ID        uuid.UUID `json:"id"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
}

// standardPayload is the payload that Standard Webhooks recommends.
type standardPayload struct {
	Type      journal.Type `json:"type"`
	Timestamp time.Time    `json:"timestamp"`
	Data      document     `json:"data"`
}

// cloudEvent is an event of CloudEvents 1.0 in the structured mode.
type cloudEvent struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject,omitempty"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	// Sequence is that of the CloudEvents extension "sequence", a text.
	Sequence string   `json:"sequence,omitempty"`
	Data     document `json:"data"`
}

// Payload returns the payload of an event. The same event has the same bytes.
func Payload(format Format, e journal.Event, about About) (contentType string, body []byte, err error) {
	d := document{ID: e.EventID(), Type: e.Type, Time: e.At.UTC().Truncate(time.Millisecond), App: about.App, Sequence: e.Sequence, Group: e.Group, Fields: e.Fields, Percent: e.Percent}
	if e.ItemID != uuid.Nil {
		d.MediaID = e.ItemID.String()
	}
	if e.ApprovalID != uuid.Nil {
		d.Approval = e.ApprovalID.String()
	}
	if e.Actor.Kind != "" {
		d.Actor = &e.Actor
	}
	return d.payload(format, about)
}

// TestPayload returns the payload of an event of TestType.
func TestPayload(format Format, id string, at time.Time, about About) (contentType string, body []byte, err error) {
	return document{ID: id, Type: TestType, Time: at.UTC().Truncate(time.Millisecond)}.payload(format, about)
}

func (d document) payload(format Format, about About) (contentType string, body []byte, err error) {
	if of := about.Account; of.ID != uuid.Nil {
		d.Account = &accountDocument{of.ID, of.Namespace, of.Name}
	}
	if format != CloudEvents {
		body, err = json.Marshal(standardPayload{d.Type, d.Time, d})
		return standardType, body, err
	}
	event := cloudEvent{SpecVersion: "1.0", ID: d.ID, Source: about.Source, Type: "dev.mediastack." + string(d.Type), Subject: d.MediaID, Time: d.Time, DataContentType: standardType, Data: d}
	if about.Account.ID != uuid.Nil {
		event.Source += "/accounts/" + about.Account.ID.String()
	}
	if d.Sequence != 0 {
		event.Sequence = strconv.FormatInt(d.Sequence, 10)
	}
	body, err = json.Marshal(event)
	return cloudEventsType, body, err
}
