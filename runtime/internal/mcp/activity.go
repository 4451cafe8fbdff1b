package mcp

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/journal"
)

// defaultActivity is how many events list_activity returns if the call does not say.
const defaultActivity = 20

// activityTools returns the tools of the toolset activity.
func (a *API) activityTools() []tool {
	types := make([]string, len(journal.Types()))
	for i, kind := range journal.Types() {
		types[i] = string(kind)
	}
	kinds := enum(string(account.ActorKey), string(account.ActorLogin), string(account.ActorPage), string(account.ActorCapability), string(account.ActorPurge), string(account.ActorService), string(account.ActorOperator))
	actor := outputObject(prop("kind", kinds, "key: a program with an API key; login: a connected application; page: an owner on a page; capability: an upload signature; purge: the end of a draft or a deleted item; service: the service itself; operator: an administrator's change."))
	actor.Properties = append(actor.Properties,
		prop("name", str(), "Name that the application has given itself."),
		prop("email", str(), "E-mail address of the user; only its first character and the domain, unless the account records whole addresses."),
		prop("approvedBy", str(), "E-mail address of the owner who has allowed the change on a page, as email has it; absent when nobody was asked."))
	asker := outputObject(prop("kind", enum(string(account.ActorKey), string(account.ActorLogin)), "As that of the actor."))
	asker.Properties = append(asker.Properties, prop("name", str(), "Name of the application."), prop("email", str(), "E-mail address of its user."))
	actor.Properties = append(actor.Properties, prop("askedBy", asker, "Of approval.allowed, denied and expired: who asked."))
	event := outputObject(prop("time", dateTime(), "When it happened."), prop("type", enum(types...), "What happened."))
	event.Properties = append(event.Properties,
		prop("mediaId", uuidString(), "Id of the item; absent for an event of the account."),
		prop("actor", actor, "Who did it; absent when it is not known."),
		prop("fields", array(str()), "Names of what changed, without values; of approval.* the tools that wait. Absent when the type says it all."),
		prop("approvalId", uuidString(), "Of approval.*: id of the request to the owner."),
		prop("percent", intRange(1, 100), "Of usage.threshold: which part of the storage cap is used."))
	output := outputObject(prop("events", array(event), "The events of this part, newest first."))
	output.Properties = append(output.Properties, prop("next", str(), "Send it as `cursor` for older events; absent when there are none."))
	return []tool{{
		operation: account.ListActivity, title: "List activity",
		description: "Lists who did what with the media, and when: uploads, seals, changes, deletes, restores and purges, newest first. Names and contents of files are not recorded. While there is a `next`, older events may follow, even if this part has few or none. Fails if the account records no activity.",
		input: inputObject(nil,
			prop("types", array(enum(types...)), "Only events of these types. Leave out for all."),
			prop("mediaId", uuidString(), "Only events of this item, also of one that is deleted."),
			prop("limit", withDefault(intRange(1, journal.MaxRecent), defaultActivity), "Events per call."),
			prop("cursor", str(), "`next` of the call before, to continue its list. Send all other arguments as in that call."),
		),
		output: output,
		run:    a.listActivity,
	}}
}

// activityEvent is an event as the tool returns it.
type activityEvent struct {
	Time    time.Time      `json:"time"`
	Type    journal.Type   `json:"type"`
	MediaID *uuid.UUID     `json:"mediaId,omitempty"`
	Actor   *activityActor `json:"actor,omitempty"`
	Fields  []string       `json:"fields,omitempty"`
	Percent int            `json:"percent,omitempty"`
	// ApprovalID is the request to the owner that the event is about.
	ApprovalID *uuid.UUID `json:"approvalId,omitempty"`
}

type activityActor struct {
	Kind  account.ActorKind `json:"kind"`
	Name  string            `json:"name,omitempty"`
	Email string            `json:"email,omitempty"`
	// ApprovedBy is the owner who has allowed the change.
	ApprovedBy string `json:"approvedBy,omitempty"`
	// AskedBy is who has asked for what the actor has decided.
	AskedBy *activityActor `json:"askedBy,omitempty"`
}

func (a *API) listActivity(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	request := journal.RecentRequest{Before: args.text("cursor"), Limit: defaultActivity}
	if limit := args.integer("limit"); limit != nil {
		request.Limit = *limit
	}
	if _, sent := args.fields["mediaId"]; sent {
		request.ItemID = args.id("mediaId")
	}
	if types := read[[]journal.Type](args, "types", "a list of event types"); types != nil {
		request.Types = *types
	}
	if args.err != nil {
		return nil, args.err
	}
	page, err := a.deps.Activity.Recent(ctx, identity.Principal, request)
	if err != nil {
		return nil, err
	}
	part := struct {
		Events []activityEvent `json:"events"`
		Next   string          `json:"next,omitempty"`
	}{Events: make([]activityEvent, 0, len(page.Events)), Next: page.Older}
	for _, event := range page.Events {
		shown := activityEvent{Time: event.At.UTC().Truncate(time.Millisecond), Type: event.Type, Fields: event.Fields, Percent: event.Percent}
		if event.ItemID != uuid.Nil {
			shown.MediaID = new(event.ItemID)
		}
		if by := event.Actor; by.Kind != "" {
			shown.Actor = &activityActor{Kind: by.Kind, Name: by.Name, Email: by.Email, ApprovedBy: by.ApprovedBy}
			if asker := by.AskedBy; asker != nil {
				shown.Actor.AskedBy = &activityActor{Kind: asker.Kind, Name: asker.Name, Email: asker.Email}
			}
		}
		if event.ApprovalID != uuid.Nil {
			shown.ApprovalID = new(event.ApprovalID)
		}
		part.Events = append(part.Events, shown)
	}
	return part, nil
}
