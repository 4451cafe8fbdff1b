package api

import (
	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/journal"
)

// NewEventPage returns the document of a page of events that an app has read: its own, and those of the account.
func NewEventPage(page journal.Page, app account.App) EventPage {
	document := EventPage{Events: make([]Event, len(page.Events)), Next: page.Next, More: page.More}
	for i, event := range page.Events {
		document.Events[i] = newEvent(event, app)
	}
	return document
}

func newEvent(event journal.Event, app account.App) Event {
	document := Event{Id: event.EventID(), Type: EventType(event.Type), Time: timestamp(event.At), Sequence: event.Sequence, Group: event.Group, Fields: event.Fields, Percent: event.Percent}
	if event.ItemID != uuid.Nil {
		document.MediaId = new(event.ItemID)
	}
	if event.ApprovalID != uuid.Nil {
		document.ApprovalId = new(event.ApprovalID)
	}
	if event.AppID == app.ID {
		document.App = app.Name
	}
	if by := event.Actor; by.Kind != "" {
		document.Actor = &EventActor{Kind: EventActorKind(by.Kind), Id: by.ID, Name: by.Name, Email: by.Email, ApprovedBy: by.ApprovedBy}
		if asker := by.AskedBy; asker != nil {
			document.Actor.AskedBy = &EventAsker{Kind: EventAskerKind(asker.Kind), Id: asker.ID, Name: asker.Name, Email: asker.Email}
		}
	}
	return document
}
