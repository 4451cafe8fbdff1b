package mcp

import (
	"context"

	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/media"
)

func (a *API) listMedia(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
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
	page, err := a.deps.Media.List(ctx, identity.Principal, filter, number, limit)
	if err != nil {
		return nil, err
	}
	list := struct {
		MediaItems []api.MediaItem `json:"mediaItems"`
		Total      int64           `json:"total"`
		Page       int             `json:"page"`
	}{MediaItems: make([]api.MediaItem, 0, len(page.Items)), Total: page.Total, Page: page.Number}
	for _, item := range page.Items {
		list.MediaItems = append(list.MediaItems, api.NewMediaItem(item, a.deps.URLs))
	}
	return list, nil
}

func (a *API) getMedia(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	id := args.id("mediaId")
	if args.err != nil {
		return nil, args.err
	}
	item, err := a.deps.Media.Get(ctx, identity.Principal, id)
	if err != nil {
		return nil, err
	}
	return api.NewMediaItem(item, a.deps.URLs), nil
}

func (a *API) sealMedia(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	id := args.id("mediaId")
	if args.err != nil {
		return nil, args.err
	}
	item, err := a.deps.Media.Seal(ctx, identity.Principal, id)
	if err != nil {
		return nil, err
	}
	return api.NewMediaItem(item, a.deps.URLs), nil
}

func (a *API) deleteMedia(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	id := args.id("mediaId")
	if args.err != nil {
		return nil, args.err
	}
	return api.Deleted{Deleted: true, MediaId: id}, a.deps.Media.Delete(ctx, identity.Principal, id)
}

func (a *API) getMediaCount(ctx context.Context, identity auth.Identity, _ *arguments) (any, error) {
	count, err := a.deps.Media.Count(ctx, identity.Principal, media.Filter{})
	return api.Count{Count: count}, err
}

func (a *API) getTotalStorage(ctx context.Context, identity auth.Identity, _ *arguments) (any, error) {
	totals, err := a.deps.Media.Totals(ctx, identity.Principal)
	return api.Totals{Storage: totals.Storage, MaxStorage: totals.MaxStorage}, err
}
