package mcp

import (
	"fmt"

	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// Names of tools that other tools point to.
const (
	uploadName    = "upload_media"
	signatureName = "create_upload_signature"
)

// instructions are for the model, whichever tools it has.
func (a *API) instructions() string {
	return "Stores the media files of one account. Storing takes two steps: " + uploadName + " makes a draft, and seal_media makes it last. " +
		"A draft that is not sealed within 24 hours is deleted; until it is sealed it is missing from lists, counts and totals. " +
		fmt.Sprintf("%s takes files of up to %d bytes; ", uploadName, fileLimit) + a.largerFiles()
}

// largerFiles says how a file gets in that is too large for upload_media.
func (a *API) largerFiles() string {
	return fmt.Sprintf("for larger ones call %s and have the file sent from where it is: POST %s as multipart/form-data with the part file, or TUS 1.0.0 at %s, with the signature in the header %s.",
		signatureName, a.base+api.UploadRoute, a.base+api.ResumableRoute, a.parts.Auth.SignatureHeader)
}

// allTools are the ten tools of the specification.
func (a *API) allTools() []tool {
	mediaID := field("mediaId", identifier(), "Id of the item, as upload_media and list_media give it.")
	item := mediaItem()
	return []tool{{
		name: "list_media", title: "List media", reads: true,
		description: "Lists sealed items, newest first, a page at a time. `total` counts the items that match on all pages: go on with page+1 while page*limit < total. Drafts are never listed.",
		input: takes(nil,
			field("page", orElse(numberFrom(1), media.DefaultPage), "Which page, from 1."),
			field("limit", orElse(number(1, media.MaxLimit), media.DefaultLimit), "Items on a page."),
			field("access", oneOf(string(media.Public), string(media.Private)), "Only items of this access. Leave out for both."),
			field("group", upTo(media.MaxGroup), "Only items whose group is exactly this, in upper and lower case. Leave out for all."),
		),
		output: gives(
			field("mediaItems", listOf(item), "The items of this page; empty behind the last one."),
			field("total", numberFrom(0), "Items that match, on all pages."),
			field("page", numberFrom(1), "Which page this is."),
		),
		run: a.listMedia,
	}, {
		name: "get_media", title: "Get one media item", reads: true,
		description: "Reads one item: its name, type, size and the addresses of its file and thumbnail. It reads drafts, too; those have `temp: true`.",
		input:       takes([]string{"mediaId"}, mediaID), output: item,
		run: a.getMedia,
	}, {
		name: "get_media_count", title: "Count media", reads: true,
		description: "Counts the sealed items. Drafts don't count.",
		input:       takes(nil), output: gives(field("count", numberFrom(0), "Sealed items.")),
		run: a.getMediaCount,
	}, {
		name: "get_total_storage", title: "Get storage use", reads: true,
		description: "Tells how many bytes the sealed items take, thumbnails and conversions included, and how many the account may take. Drafts don't show here, but count towards the maximum while they last.",
		input:       takes(nil),
		output: gives(
			field("storage", numberFrom(0), "Bytes of the sealed items."),
			field("maxStorage", numberFrom(0), "Bytes that the account may take."),
		),
		run: a.getTotalStorage,
	}, {
		name: "seal_media", title: "Seal a draft", idempotent: true,
		description: "Makes a draft last: it is kept for good, and shows in lists, counts and totals. Call it for every upload that is to be kept. Sealing a sealed item gives it again. The address of a public item is a plain one from now on, so read it from the answer.",
		input:       takes([]string{"mediaId"}, mediaID), output: item,
		run: a.sealMedia,
	}, {
		name: "delete_media", title: "Delete media", destructive: true, idempotent: true,
		description: "Deletes an item, sealed or draft, with its file, thumbnail and conversions, for good. There is no way back: ask the user first.",
		input:       takes([]string{"mediaId"}, mediaID),
		output: gives(
			field("deleted", always(true), "The item is gone."),
			field("mediaId", identifier(), "Id of the item that was deleted."),
		),
		run: a.deleteMedia,
	}, {
		name: uploadName, title: "Upload a file",
		description: fmt.Sprintf("Stores a file of up to %d bytes (10 MB) as a draft and gives its id. Call seal_media with it afterwards: a draft that is not sealed is deleted after 24 hours. The file itself is looked at to find its type; mimeType helps where that says nothing. ", fileLimit) +
			"Don't send larger files in parts; " + a.largerFiles(),
		input: takes([]string{fileArgument, "fileName", "mimeType"},
			field(fileArgument, schema{Type: "string", MinLength: 1, Encoding: "base64"}, "The bytes of the file as base64, in the standard alphabet or the one for URLs, with padding or without; no data: prefix."),
			field("fileName", words(), "Name of the file with its extension, such as photo.jpg. A path before it is dropped."),
			field("mimeType", words(), "MIME type of the file, such as image/jpeg."),
			field("caption", upTo(media.MaxCaption), fmt.Sprintf("Text that describes the file, up to %d bytes.", media.MaxCaption)),
			field("access", orElse(oneOf(string(media.Public), string(media.Private)), string(media.Private)), "Whether everybody with the address may read the file once it is sealed (public), or only who has an address that expires (private)."),
			field("group", upTo(media.MaxGroup), fmt.Sprintf("Label like a folder, up to %d bytes; list_media can filter by it.", media.MaxGroup)),
		),
		output: gives(field("mediaId", identifier(), "Id of the draft: give it to seal_media.")),
		run:    a.uploadMedia,
	}, {
		name: signatureName, title: "Create an upload signature",
		description: "Makes a permission to upload that expires, for files too large for upload_media or for a browser that must not have the API key. Whoever has it may upload in this account's name: hand it to nobody else. Send the file with it by " +
			fmt.Sprintf("POST %s (multipart/form-data, part file) or by TUS 1.0.0 at %s, with the signature in the header %s. The upload makes a draft; seal it with seal_media and the mediaId of the upload's answer.", a.base+api.UploadRoute, a.base+api.ResumableRoute, a.parts.Auth.SignatureHeader),
		input: takes(nil,
			field("group", upTo(media.MaxGroup), "Uploads with this signature get this group, whatever they say. Leave out to leave it to them.")),
		output: gives(field("signature", words(), "The signature; it is a secret.")),
		run:    a.createUploadSignature,
	}, {
		name: "get_media_settings", title: "Get media settings", reads: true,
		description: "Reads how uploaded images are processed, and for each setting where its value comes from: default (nobody chose), tenant (chosen for this account) or pinned (fixed by an administrator, update_media_settings can't change it).",
		input:       takes(nil), output: settingsDocument(),
		run: a.getMediaSettings,
	}, {
		name: "update_media_settings", title: "Update media settings", destructive: true, idempotent: true,
		description: "Changes how images are processed that are uploaded from now on. Only what is sent changes; either all of it or, when one setting is refused, nothing. A pinned setting is refused by name.",
		input:       takes(nil, settingFields(func(s settings.Field) string { return s.Descriptions.Argument })...),
		output:      gives(field("updated", always(true), "The settings are in force.")),
		run:         a.updateMediaSettings,
	}}
}

// mediaItem is the media document, the same as on REST.
func mediaItem() schema {
	item := gives(
		field("mediaId", identifier(), "Id of the item."),
		field("originalFileName", words(), "Name that the file was uploaded with."),
		field("mimeType", words(), "MIME type of the file."),
		field("size", numberFrom(0), "Bytes of the file."),
		field("access", oneOf(string(media.Public), string(media.Private)), "Who may read the file once it is sealed."),
		field("file", schema{Type: "string", Format: "uri"}, "Address of the file. That of a draft or of a private item expires: read the item again for a fresh one."),
		field("thumbnail", words(), "Address of the thumbnail; empty when there is none."),
		field("caption", words(), "Text that describes the file; empty when there is none."),
		field("group", words(), "Label of the item; empty when it has none."),
	)
	item.Properties = append(item.Properties, field("temp", always(true), "Set while the item is a draft; absent once it is sealed."))
	return item
}

// settingsDocument is the settings document, the same as on REST.
func settingsDocument() schema {
	source := oneOf(string(settings.FromDefault), string(settings.FromTenant), string(settings.FromPin))
	var sources []property
	for _, one := range settings.Fields() {
		sources = append(sources, field(one.Name, source, ""))
	}
	fields := settingFields(func(s settings.Field) string { return s.Descriptions.Result })
	document := gives(append(fields, field("sources", gives(sources...), "Where the value of each setting comes from."))...)
	document.Properties = append(document.Properties, field("pinnedBy", words(), "The MediaSettings object that pins settings, as namespace/name; absent when none does."))
	return document
}

// settingFields returns the schemas of all settings.
func settingFields(describe func(settings.Field) string) []property {
	var fields []property
	for _, one := range settings.Fields() {
		s := yesNo()
		if one.Kind == settings.Integer {
			s = number(one.Min, one.Max)
		}
		fields = append(fields, field(one.Name, s, describe(one)))
	}
	return fields
}
