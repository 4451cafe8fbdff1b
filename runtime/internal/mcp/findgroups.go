package mcp

import (
	"context"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/media"
)

// wordsHelp describes a search by words.
const wordsHelp = `Words that are in the file name, caption, group or metadata, in any order; case and accents do not matter, and each also matches longer words that begin with it. Use "quotation marks" for words that follow each other, and -word to leave out items.`

// traitProperties are the arguments that filter by what items have, and by the size and the look of their files.
func traitProperties() properties {
	traits := enum("caption", "group", "caption,group")
	size := func(name, help string) property { return prop(name, intMin(0), help) }
	return properties{
		prop("has", traits, "Only items that have these."), prop("lacks", traits, "Only items that have none of these."),
		size("minBytes", "Only files of this size or larger."), size("maxBytes", "Only files of this size or smaller."),
		size("minWidth", "Only pictures and videos of this width in pixels or more."), size("maxWidth", "Only pictures and videos of this width or less."),
		size("minHeight", "Only pictures and videos of this height or more."), size("maxHeight", "Only pictures and videos of this height or less."),
		prop("orientation", enum(string(media.Landscape), string(media.Portrait), string(media.Square)), "Only pictures and videos of this form."),
		prop("color", maxLen(7), "Only images whose dominant color is close to this one, such as #1e6fb9."),
	}
}

func traitsOf(args *arguments) media.TraitsText {
	return media.TraitsText{
		Has: args.text("has"), Lacks: args.text("lacks"), MinBytes: args.number("minBytes"), MaxBytes: args.number("maxBytes"), MinWidth: args.number("minWidth"),
		MaxWidth: args.number("maxWidth"), MinHeight: args.number("minHeight"), MaxHeight: args.number("maxHeight"), Orientation: args.text("orientation"), Color: args.text("color"),
	}
}

// number returns an integer, or nil if it was not sent.
func (a *arguments) number(name string) *int64 {
	if n := a.integer(name); n != nil {
		return new(int64(*n))
	}
	return nil
}

func (a *API) groupsTool(v view) tool {
	group := outputObject(prop("group", str(), "The name of the group."), prop("count", intMin(0), "Its sealed items."))
	output := outputObject(prop("groups", array(group), "The groups, in the order of their names."))
	output.Properties = append(output.Properties, prop("next", str(), "Send it as `after` to continue; absent at the end of the list."))
	return tool{
		operation: account.ListGroups, title: "List groups",
		description: "Lists the groups of sealed items, with how many items each has. Continue with `next` while there is one." + v.groupUse(),
		input: inputObject(nil, prop("access", enum(string(media.Public), string(media.Private)), "Count only items of this access. Leave out for both."),
			prop("limit", withDefault(intRange(1, media.MaxGroups), media.DefaultGroups), "Groups per call."), prop("after", str(), "`next` of the call before.")),
		output: output,
		run:    a.listGroups,
	}
}

// groupUse says which tools list the items of a group.
func (v view) groupUse() string {
	if tools := v.either(account.ListMedia, account.SearchMedia); tools != "" {
		return " For the items of one, send its name as `group` to " + tools + "."
	}
	return ""
}

func (a *API) listGroups(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	limit, access, after := media.DefaultGroups, args.access("access"), args.text("after")
	if size := args.integer("limit"); size != nil {
		limit = *size
	}
	if args.err != nil {
		return nil, args.err
	}
	groups, next, err := a.deps.Media.Groups(ctx, identity.Principal, access, after, limit)
	if err != nil {
		return nil, err
	}
	list := struct {
		Groups []api.GroupCount `json:"groups"`
		Next   string           `json:"next,omitempty"`
	}{Groups: make([]api.GroupCount, 0, len(groups)), Next: next}
	for _, group := range groups {
		list.Groups = append(list.Groups, api.GroupCount{Group: group.Name, Count: group.Items})
	}
	return list, nil
}

func (a *API) keysTool(v view) tool {
	key := outputObject(prop("key", str(), "The key."), prop("count", intMin(0), "Examined items that have it."))
	output := outputObject(prop("keys", array(key), "The keys, those of most items first."))
	output.Properties = append(output.Properties, prop("atLeast", boolean(), "True if there may be more keys and items: the newest items were examined. Absent otherwise."))
	return tool{
		operation: account.ListMetadataKeys, title: "List metadata keys",
		description: "Lists the keys that the metadata of sealed items has, with how many items have each." + v.when(account.SearchMedia, " Use them in `metadata` of search_media."),
		input:       inputObject(nil),
		output:      output,
		run:         a.listMetadataKeys,
	}
}

func (a *API) listMetadataKeys(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	if args.err != nil {
		return nil, args.err
	}
	found, err := a.deps.Media.MetadataKeys(ctx, identity.Principal)
	if err != nil {
		return nil, err
	}
	list := api.MetadataKeys{Keys: make([]api.MetadataKeyCount, 0, len(found.Keys)), AtLeast: found.Partial}
	for _, key := range found.Keys {
		list.Keys = append(list.Keys, api.MetadataKeyCount{Key: key.Name, Count: key.Items})
	}
	return list, nil
}
