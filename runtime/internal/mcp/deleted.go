package mcp

import (
	"context"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/media"
)

// undoableDelete returns what the toolset undo changes in delete_media.
func undoableDelete() *extension {
	return &extension{
		toolset: account.ToolsetUndo, without: " " + cannotBeUndone,
		description: " Ask the user first. If the result has `expiresAt`, " + string(account.RestoreMedia) + " can restore the item until then, unless an upload needs its room; otherwise, and for a draft, this cannot be undone.",
		optional:    properties{prop("expiresAt", dateTime(), "Until when the item can be restored; absent if it cannot.")},
	}
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
	if args.err != nil {
		return nil, args.err
	}
	page, err := a.deps.Media.ListDeleted(ctx, identity.Principal, number, limit)
	if err != nil {
		return nil, err
	}
	list := struct {
		MediaItems []api.DeletedItem `json:"mediaItems"`
		Total      int64             `json:"total"`
		Page       int               `json:"page"`
	}{MediaItems: make([]api.DeletedItem, 0, len(page.Items)), Total: page.Total, Page: page.Number}
	for _, deleted := range page.Items {
		list.MediaItems = append(list.MediaItems, api.Documents{}.Deleted(deleted))
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
		return nil, err
	}
	return detailed(a.documents(ctx, identity), restored), nil
}
