package mcp

import (
	"context"
	"fmt"
	"slices"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// removableFields are the fields that update_media empties. An argument that is an empty string is
// absent, so that they have names of their own.
var removableFields = []string{"caption", "group", "metadata"}

// updateMediaTool returns the tool of the toolset organize.
func (a *API) updateMediaTool(v view, mediaID property) tool {
	item := detailedMediaItem(v)
	return tool{
		operation: account.UpdateMedia, title: "Change a media item", destructive: true, idempotent: true,
		description: "Changes an item, sealed or draft. Only what is sent changes: all of it or, if a value is rejected, nothing. Making an item public lets anyone with its URL read the file: ask the user first. The URL changes with access and fileName, so read it from the result. " +
			fmt.Sprintf("For up to %d items send mediaIds instead of mediaId: each gets the same change, and the result says what became of each. With dryRun nothing is changed, and the result says what would be.", maxUpdates),
		input: inputObject(nil, mediaID,
			prop("mediaIds", array(uuidString()), fmt.Sprintf("Ids of 1 to %d items, instead of mediaId. Each counts as a call towards the rate limits.", maxUpdates)),
			prop("dryRun", withDefault(boolean(), false), "Change nothing, and return what would change."),
			prop("caption", maxLen(media.MaxCaption), "New text that describes the file."),
			prop("access", enum(string(media.Public), string(media.Private)), "Who may read the file once it is sealed: public = anyone with its URL, private = only holders of a signed URL that expires."),
			prop("group", maxLen(media.MaxGroup), "New label; the item leaves its former group."),
			prop("fileName", str(), "New name of the file with its extension."),
			prop("metadata", textMap(), "Pairs to set. Other pairs stay; a pair with an empty value is removed."),
			prop("clear", array(enum(removableFields...)), "Fields to empty. For metadata: all its pairs, before those of the argument metadata are set."),
		),
		output: schema{Type: "object", Properties: slices.Concat(item.Properties, manyResults()),
			AnyOf: []schema{{Required: item.Required}, {Required: properties(manyResults()).names()}}},
		run: a.updateMedia,
	}
}

// textMap returns the schema of an object of strings.
func textMap() schema {
	return schema{Type: "object", AdditionalProperties: maxLen(media.MaxMetadataValue)}
}

func (a *API) updateMedia(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	ids, many, dryRun := args.updateTargets()
	change := args.change()
	if args.err != nil {
		return nil, args.err
	}
	if many {
		return a.updateMany(ctx, identity, ids, change, dryRun)
	}
	changed, err := a.deps.Media.Update(ctx, identity.Principal, ids[0], change, media.Condition{})
	if err != nil {
		return a.ask(ctx, identity, err, approval.Request{Operation: account.UpdateMedia, Items: ids, Change: change})
	}
	return detailed(a.documents(ctx, identity), changed), nil
}

// change returns the change that the arguments are.
func (a *arguments) change() media.Change {
	change := media.Change{Caption: a.sent("caption"), Group: a.sent("group"), FileName: a.sent("fileName")}
	if access := a.access("access"); access != "" {
		change.Access = &access
	}
	if text, ok := a.fields["metadata"]; ok && a.err == nil {
		change.Metadata, a.err = httpapi.ReadPairs("metadata", text)
		for key, value := range change.Metadata {
			if value != nil && *value == "" {
				change.Metadata[key] = nil
			}
		}
	}
	cleared := read[[]string](a, "clear", "a list of strings")
	if cleared == nil {
		return change
	}
	for _, name := range *cleared {
		_, alsoSet := a.fields[name]
		switch {
		case a.err != nil:
		case !slices.Contains(removableFields, name):
			a.err = fault.New(fault.Invalid, "clear must be a list of %s", httpapi.Or(removableFields))
		case name == "metadata":
			change.ReplaceMetadata = true
		case alsoSet:
			a.err = fault.New(fault.Invalid, "%s is in clear and has a new value", name)
		case name == "caption":
			change.Caption = new("")
		default:
			change.Group = new("")
		}
	}
	return change
}

// sent returns a string argument, or nil if it is absent.
func (a *arguments) sent(name string) *string { return read[string](a, name, "a string") }
