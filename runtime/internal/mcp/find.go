package mcp

import (
	"context"
	"slices"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/media"
)

// findTools returns the tools of the toolset find.
func (a *API) findTools(v view) []tool {
	limit := prop("limit", withDefault(intRange(1, media.MaxLimit), media.DefaultLimit), "Items per call.")
	after := prop("after", str(), "`next` of the call before, to continue its list. Send all other arguments as in that call.")
	access := prop("access", enum(string(media.Public), string(media.Private)), "Only items of this access. Leave out for both.")
	group := prop("group", maxLen(media.MaxGroup), "Only items of exactly this group; case matters. Leave out for all.")
	kind := prop("type", str(), "Only files of this MIME type, such as application/pdf, or of this kind, such as image/*.")
	name := prop("name", maxLen(media.MaxFileName), "Only items whose original file name contains this text; the case of a-z does not matter.")
	from := lowerBound("from", "Only items whose upload began")
	to := upperBound("to", "Only items whose upload began")
	capturedFrom := lowerBound("capturedFrom", "Only photos and recordings that were made, as the file says it,")
	capturedTo := upperBound("capturedTo", "Only photos and recordings that were made, as the file says it,")
	near := prop("near", str(), "Only those that were made near a place, as latitude,longitude,metres, such as 48.8584,2.2945,500. No item of an account that keeps no places matches.")
	words := prop("q", maxLen(media.MaxWordsText), wordsHelp)
	metadata := prop("metadata", schema{Type: "object"}, `Only items that have all of these pairs of texts in their metadata, such as {"project": "atlas"}.`)
	return []tool{{
		operation: account.SearchMedia, title: "Search media",
		description: "Finds sealed items by words, type, name, time, metadata, access, group, size and look; all that are sent must match. Returns a part of the list; while there is a `next`, more items may follow, even if this part has few or none.",
		input: inputObject(nil, slices.Concat(properties{words, kind, name, from, to, capturedFrom, capturedTo, near, metadata, access, group}, traitProperties(), properties{
			prop("sort", withDefault(enum("-time", "time", "name", "-name", "size", "-size", "captured", "-captured"), "-time"), "Order; -time is newest first, -size largest first, -captured made last first."),
			limit, after})...),
		output:    v.withNext(partOf(detailedMediaItem(v))),
		extension: shortList(v, listedFields), run: a.searchMedia,
	}, {
		operation: account.ListDrafts, title: "List drafts",
		description: "Lists uploads that are not sealed yet, newest first, with the time at which each is deleted. Continue with `next` while there is one." + v.when(account.SealMedia, " seal_media keeps a draft."),
		input:       inputObject(nil, access, group, words, kind, name, limit, after),
		output:      partOf(detailedMediaItem(v)),
		extension:   shortList(v, draftFields), run: a.listDrafts,
	}, a.groupsTool(v), a.keysTool(v)}
}

// partOf returns the schema of a part of a list.
func partOf(item schema) schema {
	part := outputObject(prop("mediaItems", array(item), "The items of this part."))
	part.Properties = append(part.Properties, prop("next", str(), "Send it as `after` to continue; absent at the end of the list."))
	return part
}

func (a *API) searchMedia(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	return a.find(ctx, identity, args, "")
}

func (a *API) listDrafts(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	return a.find(ctx, identity, args, "draft")
}

// find runs a search with the arguments that its tool has.
func (a *API) find(ctx context.Context, identity auth.Identity, args *arguments, state string) (any, error) {
	text := media.QueryText{
		Filter: media.Filter{Access: args.access("access"), Group: args.text("group")}, Type: args.text("type"), Name: args.text("name"), From: args.from("from"), To: args.until("to"),
		CapturedFrom: args.from("capturedFrom"), CapturedTo: args.until("capturedTo"), Near: args.text("near"),
		Sort: args.text("sort"), State: state, After: args.text("after"), Limit: args.integer("limit"), Metadata: args.texts("metadata"),
		Words: args.text("q"), Traits: traitsOf(args),
	}
	fields := args.shortFields(a.viewOf(identity), listOf(state))
	if args.err != nil {
		return nil, args.err
	}
	query, err := text.Parse()
	if err != nil {
		return nil, err
	}
	results, err := a.deps.Media.Find(ctx, identity.Principal, query)
	if err != nil {
		return nil, err
	}
	part := struct {
		MediaItems []any  `json:"mediaItems"`
		Next       string `json:"next,omitempty"`
		Hint       string `json:"hint,omitempty"`
	}{MediaItems: make([]any, 0, len(results.Items)), Next: results.Next}
	if state == "" {
		part.Hint = a.viewOf(identity).nextOf(query, len(results.Items))
	}
	documents := a.documents(ctx, identity)
	for _, found := range results.Items {
		if fields != nil {
			part.MediaItems = append(part.MediaItems, fields.item(documents, found))
		} else {
			part.MediaItems = append(part.MediaItems, detailed(documents, found))
		}
	}
	return part, nil
}
