package mcp

import (
	"context"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/media"
)

func (a *API) listMedia(ctx context.Context, grant auth.Identity, args *arguments) (any, error) {
	number, limit := media.DefaultPage, media.DefaultLimit
	if page := args.integer("page"); page != nil {
		number = *page
	}
	if size := args.integer("limit"); size != nil {
		limit = *size
	}
	filter := media.Filter{Access: args.access("access"), Group: args.text("group")}
	if args.err != nil {
		return nil, args.err
	}
	page, err := a.parts.Media.List(ctx, grant.Principal, filter, number, limit)
	if err != nil {
		return nil, err
	}
	list := struct {
		MediaItems []api.MediaItem `json:"mediaItems"`
		Total      int64           `json:"total"`
		Page       int             `json:"page"`
	}{MediaItems: make([]api.MediaItem, 0, len(page.Items)), Total: page.Total, Page: page.Number}
	for _, item := range page.Items {
		list.MediaItems = append(list.MediaItems, api.NewMediaItem(item, a.parts.URLs))
	}
	return list, nil
}

// one carries out what concerns one item.
func (a *API) one(ctx context.Context, grant auth.Identity, args *arguments,
	find func(context.Context, account.Principal, uuid.UUID) (media.Item, error),
) (any, error) {
	id := args.id("mediaId")
	if args.err != nil {
		return nil, args.err
	}
	item, err := find(ctx, grant.Principal, id)
	if err != nil {
		return nil, missing(err)
	}
	return api.NewMediaItem(item, a.parts.URLs), nil
}

// missing describes every item that can\'t be had in the same words.
func missing(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.Wrap(err, fault.NotFound, "there is no such item: it may be deleted, or a draft that was not sealed within 24 hours; list_media lists what there is")
	}
	return err
}

func (a *API) getMedia(ctx context.Context, grant auth.Identity, args *arguments) (any, error) {
	return a.one(ctx, grant, args, a.parts.Media.Get)
}

func (a *API) sealMedia(ctx context.Context, grant auth.Identity, args *arguments) (any, error) {
	return a.one(ctx, grant, args, a.parts.Media.Seal)
}

func (a *API) deleteMedia(ctx context.Context, grant auth.Identity, args *arguments) (any, error) {
	id := args.id("mediaId")
	if args.err != nil {
		return nil, args.err
	}
	return api.Deleted{Deleted: true, MediaId: id}, missing(a.parts.Media.Delete(ctx, grant.Principal, id))
}

func (a *API) getMediaCount(ctx context.Context, grant auth.Identity, _ *arguments) (any, error) {
	count, err := a.parts.Media.Count(ctx, grant.Principal, media.Filter{})
	return api.Count{Count: count}, err
}

func (a *API) getTotalStorage(ctx context.Context, grant auth.Identity, _ *arguments) (any, error) {
	totals, err := a.parts.Media.Totals(ctx, grant.Principal)
	return api.Totals{Storage: totals.Storage, MaxStorage: totals.MaxStorage}, err
}
