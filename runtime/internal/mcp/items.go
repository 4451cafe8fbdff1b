package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/media"
)

// item is the document of an item for tools. Its fields are those of docs/specification.md, as
// clients of the tools know them; the document of REST has more.
type item struct {
	MediaID          uuid.UUID    `json:"mediaId"`
	OriginalFileName string       `json:"originalFileName"`
	MimeType         string       `json:"mimeType"`
	Size             int64        `json:"size"`
	Access           media.Access `json:"access"`
	File             string       `json:"file"`
	Thumbnail        string       `json:"thumbnail"`
	Caption          string       `json:"caption"`
	Group            string       `json:"group"`
	Temp             bool         `json:"temp,omitempty"`
	Original         string       `json:"original,omitempty"`
	// State and Message are only in accounts that check files before they are sealed: the schemas of all others stay as they are.
	State   string `json:"state,omitempty"`
	Message string `json:"message,omitempty"`
}

// messageOf explains the state of a draft to a model.
func (v view) messageOf(state string) string {
	switch state {
	case api.StateChecking:
		return "The file is checked for malware. It is sealed by itself once it is clean; until then it is a draft." + v.when(account.SealMedia, " Call seal_media again later to see.")
	case api.StateRejected:
		return "The file cannot be checked for malware, and is not sealed. Delete the draft, and upload another file."
	}
	return ""
}

// detailedItem is the document of an item for the tools that came after those of the specification.
type detailedItem struct {
	item
	CreatedAt time.Time      `json:"createdAt"`
	SealedAt  *time.Time     `json:"sealedAt,omitempty"`
	ExpiresAt *time.Time     `json:"expiresAt,omitempty"`
	Metadata  media.Metadata `json:"metadata"`
	Width     int            `json:"width,omitempty"`
	Height    int            `json:"height,omitempty"`
	Ref       string         `json:"ref,omitempty"`
	// CapturedAt is not a time: it may have no offset, or be a year only.
	CapturedAt string `json:"capturedAt,omitempty"`
}

// documents makes the documents of an account's items, for a caller.
type documents struct {
	api.AccountDocuments
	view view
}

// documents returns the documents of the account's items.
func (a *API) documents(ctx context.Context, identity auth.Identity) documents {
	return documents{a.deps.Documents.Of(ctx, identity.Account.ID), a.viewOf(identity)}
}

func detailed(documents documents, of media.Item) detailedItem {
	full := documents.Item(of)
	return detailedItem{item: documents.documentOf(full), CreatedAt: full.CreatedAt, SealedAt: full.SealedAt, ExpiresAt: full.ExpiresAt,
		Metadata: of.Metadata, Width: full.Width, Height: full.Height, Ref: of.Ref, CapturedAt: full.CapturedAt}
}

// one returns the document of a single item: that of the specification, or all of it where lists are short. See view.item.
func (d documents) one(of media.Item) any {
	if d.view.has(account.ToolsetSlim) {
		return detailed(d, of)
	}
	return d.documentOf(d.Item(of))
}

func (d documents) documentOf(full api.MediaItem) item {
	return item{MediaID: full.MediaId, OriginalFileName: full.OriginalFileName, MimeType: full.MimeType, Size: full.Size, Access: media.Access(full.Access),
		File: full.File, Thumbnail: full.Thumbnail, Caption: full.Caption, Group: full.Group, Temp: full.Temp, Original: full.Original, State: full.State, Message: d.view.messageOf(full.State)}
}

func (a *API) listMedia(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	number, limit := media.DefaultPage, media.DefaultLimit
	if page := args.integer("page"); page != nil {
		number = *page
	}
	if size := args.integer("limit"); size != nil {
		limit = *size
	}
	filter := media.Filter{Access: args.access("access"), Group: args.text("group")}
	fields := args.shortFields(a.viewOf(identity), listedFields)
	if args.err != nil {
		return nil, args.err
	}
	page, err := a.deps.Media.List(ctx, identity.Principal, filter, number, limit)
	if err != nil {
		return nil, err
	}
	list := pageOf{MediaItems: make([]any, 0, len(page.Items)), Total: page.Total, Page: page.Number}
	documents := a.documents(ctx, identity)
	for _, found := range page.Items {
		if fields != nil {
			list.MediaItems = append(list.MediaItems, fields.item(documents, found))
		} else {
			list.MediaItems = append(list.MediaItems, documents.documentOf(documents.Item(found)))
		}
	}
	return list, nil
}

// pageOf is a page of a list.
type pageOf struct {
	MediaItems []any `json:"mediaItems"`
	Total      int64 `json:"total"`
	Page       int   `json:"page"`
}

func (a *API) getMedia(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	id := args.id("mediaId")
	if args.err != nil {
		return nil, args.err
	}
	found, err := a.deps.Items.Get(ctx, identity.Principal, id)
	if err != nil {
		return nil, err
	}
	return a.documents(ctx, identity).one(found), nil
}

func (a *API) sealMedia(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	id := args.id("mediaId")
	if args.err != nil {
		return nil, args.err
	}
	sealed, err := a.deps.Media.Seal(ctx, identity.Principal, id)
	if err != nil {
		return a.ask(ctx, identity, err, approval.Request{Operation: account.SealMedia, Items: []uuid.UUID{id}})
	}
	return a.documents(ctx, identity).one(sealed), nil
}

func (a *API) deleteMedia(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	id := args.id("mediaId")
	if args.err != nil {
		return nil, args.err
	}
	expires, err := a.deps.Media.Delete(ctx, identity.Principal, id, media.DeleteOptions{Agent: true})
	if errors.Is(err, account.ErrApprovalRequired) {
		return a.ask(ctx, identity, err, approval.Request{Operation: account.DeleteMedia, Items: []uuid.UUID{id}})
	}
	if err != nil || !identity.Account.ToolPolicy.HasToolset(account.ToolsetUndo) {
		expires = nil
	}
	answer := deletedAnswer{Deleted: api.Documents{}.DeletedAnswer(id, expires)}
	if expires != nil {
		answer.Message = a.viewOf(identity).howToRestore()
	}
	return answer, err
}

func (a *API) getMediaCount(ctx context.Context, identity auth.Identity, _ *arguments) (any, error) {
	count, err := a.deps.Media.Count(ctx, identity.Principal, media.Filter{})
	return api.Count{Count: count}, err
}

func (a *API) getTotalStorage(ctx context.Context, identity auth.Identity, _ *arguments) (any, error) {
	totals, err := a.deps.Media.Totals(ctx, identity.Principal)
	return api.Totals{Storage: totals.Storage, MaxStorage: totals.MaxStorage}, err
}
