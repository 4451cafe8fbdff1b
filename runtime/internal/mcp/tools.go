package mcp

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// draftLifetime returns how long a draft is kept, in words: in hours, or in minutes, rounded down.
func (a *API) draftLifetime() string {
	count, unit := int(a.cfg.DraftTTL/time.Hour), "hour"
	if a.cfg.DraftTTL%time.Hour != 0 {
		count, unit = int(a.cfg.DraftTTL/time.Minute), "minute"
	}
	if count != 1 {
		unit += "s"
	}
	return strconv.Itoa(count) + " " + unit
}

// newTools returns the ten tools of the specification and those of the other toolsets. A new tool needs a row in the
// table of account/operation.go (then make generate), and an entry here. A text names a tool only if the view has it.
func (a *API) newTools(v view) []tool {
	mediaID := prop("mediaId", uuidString(), idText("Id of the item", v.itemSources()))
	item := v.item()
	return []tool{{
		operation: account.ListMedia, title: "List media",
		description: "Lists sealed items, newest first, one page per call. `total` is the number of matching items on all pages: continue with page+1 while page*limit < total. Drafts are never listed.",
		input: inputObject(nil,
			prop("page", withDefault(intMin(1), media.DefaultPage), "Number of the page, from 1."),
			prop("limit", withDefault(intRange(1, media.MaxLimit), media.DefaultLimit), "Items per page."),
			prop("access", enum(string(media.Public), string(media.Private)), "Only items of this access. Leave out for both."),
			prop("group", maxLen(media.MaxGroup), "Only items of exactly this group; case matters. Leave out for all."),
		),
		output: outputObject(
			prop("mediaItems", array(mediaItem(v)), "The items of this page; empty after the last page."),
			prop("total", intMin(0), "Matching items on all pages."),
			prop("page", intMin(1), "Number of this page."),
		),
		extension: shortList(v, listedFields), run: a.listMedia,
	}, {
		operation: account.GetMedia, title: "Get one media item",
		description: "Returns one item: its name, type, size and the URLs of its file and thumbnail. Also returns drafts, which have `temp: true`.",
		input:       inputObject([]string{"mediaId"}, mediaID), output: item,
		extension: downloads(), run: a.getMedia,
	}, {
		operation: account.GetMediaCount, title: "Count media",
		description: "Counts the sealed items. Drafts are not counted.",
		input:       inputObject(nil), output: outputObject(prop("count", intMin(0), "Sealed items.")),
		run: a.getMediaCount,
	}, {
		operation: account.GetTotalStorage, title: "Get storage use",
		description: "Returns how many bytes the sealed items use, thumbnails and conversions included, and how many the account may use. Drafts are not included, but count towards the maximum until they are deleted.",
		input:       inputObject(nil),
		output: outputObject(
			prop("storage", intMin(0), "Bytes of the sealed items."),
			prop("maxStorage", intMin(0), "Bytes that the account may use."),
		),
		run: a.getTotalStorage,
	}, {
		operation: account.SealMedia, title: "Seal a draft", idempotent: true,
		description: "Makes a draft permanent: it is no longer deleted after " + a.draftLifetime() + ", and lists, counts and totals include it. Call it for every upload that is to be kept. Sealing a sealed item returns it unchanged. The URL of a public item changes to one that does not expire, so read it from the result.",
		input:       inputObject([]string{"mediaId"}, prop("mediaId", uuidString(), idText("Id of the item", v.draftSources()))), output: item,
		run: a.sealMedia,
	}, {
		operation: account.DeleteMedia, title: "Delete media", destructive: true, idempotent: true,
		description: "Deletes an item, sealed or draft, with its file, thumbnail and conversions. " + cannotBeUndone,
		input:       inputObject([]string{"mediaId"}, mediaID),
		output: outputObject(
			prop("deleted", constant(true), "The item is deleted."),
			prop("mediaId", uuidString(), "Id of the item that was deleted."),
		),
		extension: undoableDelete(v), run: a.deleteMedia,
	}, a.updateMediaTool(v, mediaID), {
		operation: account.UploadMedia, title: "Upload a file",
		description: fmt.Sprintf("Stores a file of up to %d bytes (10 MB) as a draft and returns its id. %s after %s. The type is detected from the bytes of the file; mimeType is used where they do not show it. ", maxFile, v.draftsEnd(), a.draftLifetime()) +
			"Don't send larger files in parts; " + a.largeFileHint(v) + v.compareSize(),
		input: inputObject([]string{fileArgument, "fileName", "mimeType"},
			prop(fileArgument, schema{Type: "string", MinLength: 1, Encoding: "base64"}, "The bytes of the file as base64, in the standard alphabet or the one for URLs, with padding or without; no data: prefix."),
			prop("fileName", str(), "Name of the file with its extension, such as photo.jpg. A path before it is removed."),
			prop("mimeType", str(), "MIME type of the file, such as image/jpeg."),
			prop("caption", maxLen(media.MaxCaption), fmt.Sprintf("Text that describes the file, up to %d bytes.", media.MaxCaption)),
			prop("access", withDefault(enum(string(media.Public), string(media.Private)), string(media.Private)), "Who may read the file once it is sealed: public = anyone with its URL, private = only holders of a signed URL that expires."),
			prop("group", maxLen(media.MaxGroup), fmt.Sprintf("Label, like a folder, up to %d bytes%s.", media.MaxGroup, v.groupFilter())),
		),
		output:    outputObject(prop("mediaId", uuidString(), "Id of the draft"+v.when(account.SealMedia, ", for seal_media")+".")),
		extension: reports(v), run: a.uploadMedia,
	}, {
		operation: account.CreateUploadSignature, title: "Create an upload signature",
		description: "Creates a permission to upload that expires, for files too large for " + cmp.Or(v.when(account.UploadMedia, "upload_media"), "a tool") + " or for a browser, which must not have the API key. Its holder may upload into this account: keep it secret. Send the file with it by " +
			fmt.Sprintf("POST %s (multipart/form-data, part file) or by TUS 1.0.0 at %s, with the signature in the header %s. The upload creates a draft%s.", a.base+api.UploadRoute, a.base+api.ResumableRoute, a.deps.Auth.SignatureHeader, v.when(account.SealMedia, "; call seal_media with the mediaId of the upload's response")),
		input: inputObject(nil,
			prop("group", maxLen(media.MaxGroup), "Group of every upload with this signature; a group in the upload is ignored. Leave out to let the upload set it.")),
		output:    outputObject(prop("signature", str(), "The signature; it is a secret.")),
		extension: capabilities(v), run: a.createUploadSignature,
	}, {
		operation: account.GetMediaSettings, title: "Get media settings",
		description: "Returns how uploaded images are processed, and the source of each setting: default (not set), tenant (set for this account) or pinned (set by an administrator" + v.when(account.UpdateMediaSettings, "; update_media_settings cannot change it") + ").",
		input:       inputObject(nil), output: settingsDocument(),
		run: a.getMediaSettings,
	}, {
		operation: account.UpdateMediaSettings, title: "Update media settings", destructive: true, idempotent: true,
		description: "Changes how images are processed that are uploaded from now on. Only settings that are sent change: all of them or, if one is rejected, none. The error names a setting that is pinned.",
		input:       inputObject(nil, settingFields(func(s settings.Field) string { return s.Descriptions.Argument })...),
		output:      outputObject(prop("updated", constant(true), "The settings are in force.")),
		run:         a.updateMediaSettings,
	}, {
		operation: account.ListDeletedMedia, title: "List deleted media",
		description: "Lists the deleted items that can be restored, the latest delete first, one page per call. `total` is the number of items on all pages: continue with page+1 while page*limit < total. Their files are not served.",
		input: inputObject(nil,
			prop("page", withDefault(intMin(1), media.DefaultPage), "Number of the page, from 1."),
			prop("limit", withDefault(intRange(1, media.MaxLimit), media.DefaultLimit), "Items per page."),
		),
		output: outputObject(
			prop("mediaItems", array(deletedItem()), "The items of this page; empty after the last page."),
			prop("total", intMin(0), "Items on all pages."),
			prop("page", intMin(1), "Number of this page."),
		),
		extension: shortList(v, deletedFields), run: a.listDeletedMedia,
	}, {
		operation: account.RestoreMedia, title: "Restore deleted media", idempotent: true,
		description: "Restores a deleted item with its id, its addresses, and its place in lists. One that was public is public again. Restoring an item that is not deleted returns it unchanged. Drafts cannot be restored.",
		input:       inputObject([]string{"mediaId"}, prop("mediaId", uuidString(), idText("Id of the item", v.either(account.ListDeletedMedia, account.DeleteMedia)))), output: detailedMediaItem(v),
		run: a.restoreMedia,
	}}
}

// deletedItem returns the schema of deletedDocument.
func deletedItem() schema {
	item := outputObject(
		prop("mediaId", uuidString(), "Id of the item."),
		prop("originalFileName", str(), "Name of the uploaded file."),
		prop("mimeType", str(), "MIME type of the file."),
		prop("size", intMin(0), "Bytes of the file."),
		prop("access", enum(string(media.Public), string(media.Private)), "Who may read the file of the restored item."),
		prop("caption", str(), "Text that describes the file; empty when there is none."),
		prop("group", str(), "Label of the item; empty when it has none."),
		prop("createdAt", dateTime(), "When the item was uploaded."),
		prop("sealedAt", dateTime(), "When the item was sealed."),
		prop("deletedAt", dateTime(), "When the item was deleted."),
		prop("expiresAt", dateTime(), "Until when the item can be restored at least, unless an upload needs its room."),
		prop("metadata", textMap(), "The pairs of the item."),
	)
	item.Properties = append(item.Properties, pixels()...)
	return item
}

// pixels returns the schemas of width and height.
func pixels() []property {
	return []property{
		prop("width", intMin(1), "Width of an image in pixels, as it is displayed; absent when it is not known."),
		prop("height", intMin(1), "Height of an image in pixels, as it is displayed; absent when it is not known."),
	}
}

func dateTime() schema { return schema{Type: "string", Format: "date-time"} }

// mediaItem returns the schema of item.
func mediaItem(v view) schema {
	item := outputObject(
		prop("mediaId", uuidString(), "Id of the item."),
		prop("originalFileName", str(), "Name of the uploaded file."),
		prop("mimeType", str(), "MIME type of the file."),
		prop("size", intMin(0), "Bytes of the file."),
		prop("access", enum(string(media.Public), string(media.Private)), "Who may read the file once it is sealed."),
		prop("file", schema{Type: "string", Format: "uri"}, "URL of the file. The URL of a draft or of a private item expires"+v.when(account.GetMedia, ": call get_media for a new one")+"."),
		prop("thumbnail", str(), "URL of the thumbnail; empty when there is none."),
		prop("caption", str(), "Text that describes the file; empty when there is none."),
		prop("group", str(), "Label of the item; empty when it has none."),
	)
	item.Properties = append(item.Properties, prop("temp", constant(true), "Set while the item is a draft; absent once it is sealed."),
		prop("original", schema{Type: "string", Format: "uri"}, "URL of the uploaded file, when file is a conversion of it; absent otherwise."))
	return item
}

// detailedMediaItem returns the schema of detailedItem.
func detailedMediaItem(v view) schema {
	item := mediaItem(v)
	required := []property{
		prop("createdAt", dateTime(), "When the upload was complete."),
		prop("metadata", textMap(), "The pairs of the item."),
	}
	item.Required = append(item.Required, properties(required).names()...)
	item.Properties = slices.Concat(item.Properties, required, pixels(), []property{
		prop("sealedAt", dateTime(), "When the item was sealed; absent while it is a draft."),
		prop("expiresAt", dateTime(), "When a draft is deleted unless "+cmp.Or(v.when(account.SealMedia, "seal_media is called"), "it is sealed")+"; absent once it is sealed."),
		prop("ref", str(), "Reference of the server that requested the upload signature; absent when there is none."),
		prop("capturedAt", str(), "When a photo or a recording was made, as its file says it; absent when that is not known."),
	})
	return item
}

// settingsDocument returns the schema of the settings document, which is the same as on REST.
func settingsDocument() schema {
	source := enum(string(settings.FromDefault), string(settings.FromTenant), string(settings.FromPin))
	var sources []property
	for _, field := range settings.Fields() {
		sources = append(sources, prop(field.Name, source, ""))
	}
	fields := settingFields(func(s settings.Field) string { return s.Descriptions.Result })
	document := outputObject(append(fields, prop("sources", outputObject(sources...), "Where the value of each setting comes from."))...)
	document.Properties = append(document.Properties, prop("pinnedBy", str(), "The MediaSettings object that pins settings, as namespace/name; absent when none does."))
	return document
}

// settingFields returns the schemas of all settings.
func settingFields(describe func(settings.Field) string) []property {
	var fields []property
	for _, field := range settings.Fields() {
		s := boolean()
		if field.Kind == settings.Integer {
			s = intRange(field.Min, field.Max)
		}
		fields = append(fields, prop(field.Name, s, describe(field)))
	}
	return fields
}
