package mcp

import (
	"context"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/media"
)

// undoableDelete returns what the toolset undo changes in delete_media.
func undoableDelete(v view) *extension {
	restored := "the item can be restored"
	if v.offers(account.RestoreMedia) {
		restored = "restore_media can restore the item"
	}
	return &extension{
		toolsets: []string{account.ToolsetUndo}, without: " " + cannotBeUndone,
		description: " Ask the user first. If the result has `expiresAt`, " + restored + " until then, unless an upload needs its room; otherwise, and for a draft, this cannot be undone." +
			v.when(account.ListDeletedMedia, " list_deleted_media lists what can be restored."),
		optional: properties{
			prop("expiresAt", dateTime(), "Until when the item can be restored; absent if it cannot."),
			prop("message", str(), "How the item can be restored; absent if it cannot."),
		},
	}
}

// deletedAnswer is the result of delete_media. Message is only with the toolset undo.
type deletedAnswer struct {
	api.Deleted
	Message string `json:"message,omitempty"`
}

// howToRestore returns what a model can do about a delete that can be undone.
func (v view) howToRestore() string {
	text := "The item can be restored until expiresAt, unless an upload needs its room"
	if v.offers(account.RestoreMedia) {
		text += ": call restore_media with this mediaId"
	}
	return text + "." + v.when(account.ListDeletedMedia, " list_deleted_media lists all items that can be restored.")
}

// deletedDocument is the document of a deleted item for tools.
type deletedDocument struct {
	api.DeletedItem
	Metadata media.Metadata `json:"metadata"`
	Width    int            `json:"width,omitempty"`
	Height   int            `json:"height,omitempty"`
}

func documentOfDeleted(of media.DeletedItem) deletedDocument {
	return deletedDocument{DeletedItem: api.Documents{}.Deleted(of), Metadata: of.Metadata, Width: of.Facts.Width, Height: of.Facts.Height}
}

// cannotBeUndone is what delete_media says without the toolset.
const cannotBeUndone = "This cannot be undone: ask the user first."

func (a *API) listDeletedMedia(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	number, limit := media.DefaultPage, media.DefaultLimit
	if page := args.integer("page"); page != nil {
		number = *page
	}
	if size := args.integer("limit"); size != nil {
		limit = *size
	}
	fields := args.shortFields(a.viewOf(identity), deletedFields)
	if args.err != nil {
		return nil, args.err
	}
	page, err := a.deps.Media.ListDeleted(ctx, identity.Principal, number, limit)
	if err != nil {
		return nil, err
	}
	list := pageOf{MediaItems: make([]any, 0, len(page.Items)), Total: page.Total, Page: page.Number}
	for _, deleted := range page.Items {
		if fields != nil {
			list.MediaItems = append(list.MediaItems, fields.deleted(deleted))
		} else {
			list.MediaItems = append(list.MediaItems, documentOfDeleted(deleted))
		}
	}
	return list, nil
}

func (a *API) restoreMedia(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	id := args.id("mediaId")
	if args.err != nil {
		return nil, args.err
	}
	restored, err := a.deps.Media.Restore(ctx, identity.Principal, id)
	if err != nil {
		return a.ask(ctx, identity, err, approval.Request{Operation: account.RestoreMedia, Items: []uuid.UUID{id}})
	}
	return detailed(a.documents(ctx, identity), restored), nil
}
