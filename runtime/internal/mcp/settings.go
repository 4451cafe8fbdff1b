package mcp

import (
	"context"
	"errors"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/settings"
)

func (a *API) getMediaSettings(ctx context.Context, identity auth.Identity, _ *arguments) (any, error) {
	layers, err := a.deps.Settings.Get(ctx, identity.Account.ID)
	if err != nil {
		return nil, err
	}
	return api.NewToolSettings(layers), nil
}

func (a *API) updateMediaSettings(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	if args.err != nil {
		return nil, args.err
	}
	var change settings.Layer
	for _, field := range settings.Fields() {
		value, sent := args.fields[field.Name]
		if !sent {
			continue
		}
		if err := change.Set(field.Name, value); err != nil {
			return nil, err
		}
	}
	if _, err := a.deps.Settings.UpdateFor(ctx, identity.Principal, change); err != nil {
		if errors.Is(err, account.ErrApprovalRequired) {
			return a.ask(ctx, identity, err, approval.Request{Operation: account.UpdateMediaSettings, Settings: change})
		}
		if fault.Is(err, fault.Conflict) {
			return nil, fault.Wrap(err, fault.Conflict, "%s: nothing was changed; leave these out, or have the user ask the administrator who pinned them", fault.From(err).Public)
		}
		return nil, err
	}
	return map[string]bool{"updated": true}, nil
}
