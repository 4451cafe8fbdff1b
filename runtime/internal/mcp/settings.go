package mcp

import (
	"context"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/settings"
)

func (a *API) getMediaSettings(ctx context.Context, grant auth.Identity, _ *arguments) (any, error) {
	layers, err := a.parts.Settings.Get(ctx, grant.Account.ID)
	if err != nil {
		return nil, err
	}
	effective, sources := layers.Effective(), layers.Sources()
	document := api.Settings{UseWebP: effective.UseWebP, WebpOutputQuality: effective.WebPOutputQuality,
		ThumbnailWidth: effective.ThumbnailWidth, ThumbnailHeight: effective.ThumbnailHeight}
	document.Sources.UseWebP = api.Source(sources["useWebP"])
	document.Sources.WebpOutputQuality = api.Source(sources["webpOutputQuality"])
	document.Sources.ThumbnailWidth = api.Source(sources["thumbnailWidth"])
	document.Sources.ThumbnailHeight = api.Source(sources["thumbnailHeight"])
	if len(layers.Pinned.Fields()) > 0 {
		document.PinnedBy = layers.PinnedBy
	}
	return document, nil
}

func (a *API) updateMediaSettings(ctx context.Context, grant auth.Identity, args *arguments) (any, error) {
	change := settings.Layer{UseWebP: args.boolean("useWebP"), WebPOutputQuality: args.integer("webpOutputQuality"),
		ThumbnailWidth: args.integer("thumbnailWidth"), ThumbnailHeight: args.integer("thumbnailHeight")}
	if args.err != nil {
		return nil, args.err
	}
	if _, err := a.parts.Settings.Update(ctx, grant.Account.ID, change); err != nil {
		if fault.Is(err, fault.Conflict) {
			return nil, fault.Wrap(err, fault.Conflict, "%s: nothing was changed; leave these out, or have the user ask the administrator who pinned them", fault.From(err).Public)
		}
		return nil, err
	}
	return map[string]bool{"updated": true}, nil
}
