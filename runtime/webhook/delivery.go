package webhook

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/work"
)

// DeliveryWork is the kind of the tasks that send events. The account of a task is the id of its webhook, so webhooks take turns.
const DeliveryWork work.Kind = "webhook"

// TestType is the type of the events that an admin asks for.
const TestType journal.Type = "webhook.test"

// delivery is the payload of a task: the message to the receiver, but for what an attempt decides.
type delivery struct {
	ID          string       `json:"id"`
	Type        journal.Type `json:"type"`
	ContentType string       `json:"contentType"`
	at          time.Time
	body        []byte
}

// timeLength is the length of the time with which a payload begins: microseconds since 1970, so payloads are in the order of their events.
const timeLength = 8

// encode returns the payload of a task: the time, a line of JSON, the body.
func (d delivery) encode() ([]byte, error) {
	header, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	payload := binary.BigEndian.AppendUint64(nil, uint64(max(0, d.at.UnixMicro())))
	payload = append(append(payload, header...), '\n')
	return append(payload, d.body...), nil
}

// decodeDelivery reads what encode returns.
func decodeDelivery(payload []byte) (d delivery, err error) {
	if len(payload) < timeLength {
		return delivery{}, errors.New("the payload of a delivery has no time")
	}
	d.at = EventTime(payload)
	header, body, found := bytes.Cut(payload[timeLength:], []byte{'\n'})
	if !found {
		return delivery{}, errors.New("the payload of a delivery has no header")
	}
	d.body = body
	return d, json.Unmarshal(header, &d)
}

// EventTime returns the time of the event of a payload, of which the first bytes are enough; zero without them.
func EventTime(payload []byte) time.Time {
	if len(payload) < timeLength {
		return time.Time{}
	}
	return time.UnixMicro(int64(binary.BigEndian.Uint64(payload))) //nolint:gosec // G115: encode has written it
}

// task returns the task of a delivery. Its key is that of the event, so an event that is pending is not sent twice.
func (d delivery) task(webhook uuid.UUID) (work.NewTask, error) {
	payload, err := d.encode()
	sum := sha256.Sum256(append(webhook[:], d.ID...))
	return work.NewTask{Kind: DeliveryWork, Key: uuid.UUID(sum[:16]), AccountID: webhook, DueAt: d.at, Payload: payload}, err
}

// selects reports whether a webhook sends an event.
func (s Selection) selects(e Found) bool {
	return (len(s.Types) == 0 || slices.Contains(s.Types, e.Type)) &&
		(len(s.Apps) == 0 || slices.Contains(s.Apps, e.App)) &&
		(len(s.Groups) == 0 || e.Group != "" && slices.Contains(s.Groups, e.Group))
}

// deliveries returns the tasks of a batch.
func (b Batch) deliveries(now time.Time) ([]work.NewTask, error) {
	var all []delivery
	if b.Test != "" {
		d := delivery{ID: "test-" + b.Test, Type: TestType, at: now}
		var err error
		if d.ContentType, d.body, err = TestPayload(b.Format, d.ID, now, b.About); err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	for _, e := range b.Events {
		if !b.selects(e) {
			continue
		}
		d := delivery{ID: e.EventID(), Type: e.Type, at: e.At}
		var err error
		if d.ContentType, d.body, err = Payload(b.Format, e.Event, e.About); err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	tasks := make([]work.NewTask, len(all))
	for i, d := range all {
		var err error
		if tasks[i], err = d.task(b.ID); err != nil {
			return nil, err
		}
	}
	return tasks, nil
}
