package mcp

import (
	"fmt"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// instructions returns the instructions of the server, for the model.
func (a *API) instructions() string {
	return "Stores the media files of one account. Storing takes two steps: " + string(account.UploadMedia) + " makes a draft, and seal_media makes it last. " +
		"A draft that is not sealed within 24 hours is deleted; until it is sealed it is missing from lists, counts and totals. " +
		fmt.Sprintf("%s takes files of up to %d bytes; ", account.UploadMedia, maxFile) + a.largeFileHint()
}

// largeFileHint returns how to upload a file that is too large for upload_media.
func (a *API) largeFileHint() string {
	return fmt.Sprintf("for larger ones call %s and have the file sent from where it is: POST %s as multipart/form-data with the part file, or TUS 1.0.0 at %s, with the signature in the header %s.",
		account.CreateUploadSignature, a.base+api.UploadRoute, a.base+api.ResumableRoute, a.deps.Auth.SignatureHeader)
}

// newTools returns the ten tools of the specification.
func (a *API) newTools() []tool {
	mediaID := prop("mediaId", uuidString(), "Id of the item, as upload_media and list_media give it.")
	item := mediaItem()
	return []tool{{
		operation: account.ListMedia, title: "List media",
		description: "Lists sealed items, newest first, a page at a time. `total` counts the items that match on all pages: go on with page+1 while page*limit < total. Drafts are never listed.",
		input: inputObject(nil,
			prop("page", withDefault(intMin(1), media.DefaultPage), "Which page, from 1."),
			prop("limit", withDefault(intRange(1, media.MaxLimit), media.DefaultLimit), "Items on a page."),
			prop("access", enum(string(media.Public), string(media.Private)), "Only items of this access. Leave out for both."),
			prop("group", maxLen(media.MaxGroup), "Only items whose group is exactly this, in upper and lower case. Leave out for all."),
		),
		output: outputObject(
			prop("mediaItems", array(item), "The items of this page; empty behind the last one."),
			prop("total", intMin(0), "Items that match, on all pages."),
			prop("page", intMin(1), "Which page this is."),
		),
		run: a.listMedia,
	}, {
		operation: account.GetMedia, title: "Get one media item",
		description: "Reads one item: its name, type, size and the addresses of its file and thumbnail. It reads drafts, too; those have `temp: true`.",
		input:       inputObject([]string{"mediaId"}, mediaID), output: item,
		run: a.getMedia,
	}, {
		operation: account.GetMediaCount, title: "Count media",
		description: "Counts the sealed items. Drafts don't count.",
		input:       inputObject(nil), output: outputObject(prop("count", intMin(0), "Sealed items.")),
		run: a.getMediaCount,
	}, {
		operation: account.GetTotalStorage, title: "Get storage use",
		description: "Tells how many bytes the sealed items take, thumbnails and conversions included, and how many the account may take. Drafts don't show here, but count towards the maximum while they last.",
		input:       inputObject(nil),
		output: outputObject(
			prop("storage", intMin(0), "Bytes of the sealed items."),
			prop("maxStorage", intMin(0), "Bytes that the account may take."),
		),
		run: a.getTotalStorage,
	}, {
		operation: account.SealMedia, title: "Seal a draft", idempotent: true,
		description: "Makes a draft last: it is kept for good, and shows in lists, counts and totals. Call it for every upload that is to be kept. Sealing a sealed item gives it again. The address of a public item is a plain one from now on, so read it from the answer.",
		input:       inputObject([]string{"mediaId"}, mediaID), output: item,
		run: a.sealMedia,
	}, {
		operation: account.DeleteMedia, title: "Delete media", destructive: true, idempotent: true,
		description: "Deletes an item, sealed or draft, with its file, thumbnail and conversions, for good. There is no way back: ask the user first.",
		input:       inputObject([]string{"mediaId"}, mediaID),
		output: outputObject(
			prop("deleted", constant(true), "The item is gone."),
			prop("mediaId", uuidString(), "Id of the item that was deleted."),
		),
		run: a.deleteMedia,
	}, {
		operation: account.UploadMedia, title: "Upload a file",
		description: fmt.Sprintf("Stores a file of up to %d bytes (10 MB) as a draft and gives its id. Call seal_media with it afterwards: a draft that is not sealed is deleted after 24 hours. The file itself is looked at to find its type; mimeType helps where that says nothing. ", maxFile) +
			"Don't send larger files in parts; " + a.largeFileHint(),
		input: inputObject([]string{fileArgument, "fileName", "mimeType"},
			prop(fileArgument, schema{Type: "string", MinLength: 1, Encoding: "base64"}, "The bytes of the file as base64, in the standard alphabet or the one for URLs, with padding or without; no data: prefix."),
			prop("fileName", str(), "Name of the file with its extension, such as photo.jpg. A path before it is dropped."),
			prop("mimeType", str(), "MIME type of the file, such as image/jpeg."),
			prop("caption", maxLen(media.MaxCaption), fmt.Sprintf("Text that describes the file, up to %d bytes.", media.MaxCaption)),
			prop("access", withDefault(enum(string(media.Public), string(media.Private)), string(media.Private)), "Whether everybody with the address may read the file once it is sealed (public), or only who has an address that expires (private)."),
			prop("group", maxLen(media.MaxGroup), fmt.Sprintf("Label like a folder, up to %d bytes; list_media can filter by it.", media.MaxGroup)),
		),
		output: outputObject(prop("mediaId", uuidString(), "Id of the draft: give it to seal_media.")),
		run:    a.uploadMedia,
	}, {
		operation: account.CreateUploadSignature, title: "Create an upload signature",
		description: "Makes a permission to upload that expires, for files too large for upload_media or for a browser that must not have the API key. Its holder may upload in this account's name: hand it to nobody else. Send the file with it by " +
			fmt.Sprintf("POST %s (multipart/form-data, part file) or by TUS 1.0.0 at %s, with the signature in the header %s. The upload makes a draft; seal it with seal_media and the mediaId of the upload's answer.", a.base+api.UploadRoute, a.base+api.ResumableRoute, a.deps.Auth.SignatureHeader),
		input: inputObject(nil,
			prop("group", maxLen(media.MaxGroup), "Uploads with this signature get this group, whatever they say. Leave out to leave it to them.")),
		output: outputObject(prop("signature", str(), "The signature; it is a secret.")),
		run:    a.createUploadSignature,
	}, {
		operation: account.GetMediaSettings, title: "Get media settings",
		description: "Reads how uploaded images are processed, and for each setting where its value comes from: default (nobody chose), tenant (chosen for this account) or pinned (fixed by an administrator, update_media_settings can't change it).",
		input:       inputObject(nil), output: settingsDocument(),
		run: a.getMediaSettings,
	}, {
		operation: account.UpdateMediaSettings, title: "Update media settings", destructive: true, idempotent: true,
		description: "Changes how images are processed that are uploaded from now on. Only what is sent changes; either all of it or, when one setting is rejected, nothing. A pinned setting is rejected by name.",
		input:       inputObject(nil, settingFields(func(s settings.Field) string { return s.Descriptions.Argument })...),
		output:      outputObject(prop("updated", constant(true), "The settings are in force.")),
		run:         a.updateMediaSettings,
	}}
}

// mediaItem returns the schema of the media document, which is the same as on REST.
func mediaItem() schema {
	item := outputObject(
		prop("mediaId", uuidString(), "Id of the item."),
		prop("originalFileName", str(), "Name that the file was uploaded with."),
		prop("mimeType", str(), "MIME type of the file."),
		prop("size", intMin(0), "Bytes of the file."),
		prop("access", enum(string(media.Public), string(media.Private)), "Who may read the file once it is sealed."),
		prop("file", schema{Type: "string", Format: "uri"}, "Address of the file. That of a draft or of a private item expires: read the item again for a fresh one."),
		prop("thumbnail", str(), "Address of the thumbnail; empty when there is none."),
		prop("caption", str(), "Text that describes the file; empty when there is none."),
		prop("group", str(), "Label of the item; empty when it has none."),
	)
	item.Properties = append(item.Properties, prop("temp", constant(true), "Set while the item is a draft; absent once it is sealed."))
	return item
}

// settingsDocument returns the schema of the settings document, which is the same as on REST.
func settingsDocument() schema {
	source := enum(string(settings.FromDefault), string(settings.FromTenant), string(settings.FromPin))
	var sources []property
	for _, one := range settings.Fields() {
		sources = append(sources, prop(one.Name, source, ""))
	}
	fields := settingFields(func(s settings.Field) string { return s.Descriptions.Result })
	document := outputObject(append(fields, prop("sources", outputObject(sources...), "Where the value of each setting comes from."))...)
	document.Properties = append(document.Properties, prop("pinnedBy", str(), "The MediaSettings object that pins settings, as namespace/name; absent when none does."))
	return document
}

// settingFields returns the schemas of all settings.
func settingFields(describe func(settings.Field) string) []property {
	var fields []property
	for _, one := range settings.Fields() {
		s := boolean()
		if one.Kind == settings.Integer {
			s = intRange(one.Min, one.Max)
		}
		fields = append(fields, prop(one.Name, s, describe(one)))
	}
	return fields
}
