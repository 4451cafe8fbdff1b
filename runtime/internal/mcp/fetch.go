package mcp

import (
	"context"
	"fmt"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/remotefile"
	"mediastack.dev/runtime/media"
)

// fetchTools returns the tools of the toolset fetch, unless the installation has none.
func (a *API) fetchTools(v view) []tool {
	if !a.deps.Fetch.Enabled() {
		return nil
	}
	job := prop("jobId", uuidString(), idText("Id of the upload", v.either(account.UploadMediaFromURL)))
	state := urlUpload()
	return []tool{{
		operation: account.UploadMediaFromURL, title: "Upload a file from a URL", openWorld: true,
		description: "Has the service download a file from another server into a draft, in the background, and returns the id of the upload. " +
			v.when(account.GetUploadFromURL, "Call get_upload_from_url with it every few seconds until state is done or failed"+v.when(account.SealMedia, "; then seal_media with the mediaId, unless seal was true")+". ") +
			"The URL must begin with https://, and its host must have a public address.",
		input: inputObject([]string{"url"},
			prop("url", maxLen(remotefile.MaxURL), "URL of the file: https, without a user name."),
			prop("fileName", str(), "Name of the file with its extension; by default the last part of the URL's path."),
			prop("caption", maxLen(media.MaxCaption), fmt.Sprintf("Text that describes the file, up to %d bytes.", media.MaxCaption)),
			prop("access", withDefault(enum(string(media.Public), string(media.Private)), string(media.Private)), "Who may read the file once it is sealed: public = anyone with its URL, private = only holders of a signed URL that expires."),
			prop("group", maxLen(media.MaxGroup), fmt.Sprintf("Label, like a folder, up to %d bytes%s.", media.MaxGroup, v.groupFilter())),
			prop("metadata", schema{Type: "object"}, fmt.Sprintf("Up to %d pairs of a key (a-z, 0-9, '.', '_', '-') and a text of up to %d characters.", media.MaxMetadataPairs, media.MaxMetadataValue)),
			prop("seal", withDefault(boolean(), false), "Seal the draft when the file is complete"+v.when(account.SealMedia, ", so that seal_media is not needed")+"."),
		),
		output:    state,
		extension: attachments(), run: a.uploadFromURL,
	}, {
		operation: account.GetUploadFromURL, title: "Get the state of an upload from a URL",
		description: "Returns how far an upload from a URL has come. state is queued, running, done or failed; done has the mediaId, failed has the error.",
		input:       inputObject([]string{"jobId"}, job), output: state,
		run: a.getUploadFromURL,
	}}
}

// urlUpload returns the schema of api.URLUpload.
func urlUpload() schema {
	document := outputObject(
		prop("jobId", uuidString(), "Id of the upload."),
		prop("state", enum(string(fetch.Queued), string(fetch.Running), string(fetch.Done), string(fetch.Failed)), "done and failed are final."),
		prop("bytes", intMin(0), "Bytes that have been received."),
		prop("createdAt", schema{Type: "string", Format: "date-time"}, "When the upload was requested."),
	)
	document.Properties = append(document.Properties,
		prop("total", intMin(0), "Bytes that the server announced; absent while they are not known."),
		prop("mediaId", uuidString(), "Id of the item, once the upload is done."),
		prop("error", outputObject(
			prop("code", str(), "Stable name of the reason."),
			prop("detail", str(), "The reason in words."),
		), "Why the upload failed."),
		prop("endedAt", schema{Type: "string", Format: "date-time"}, "When the upload was done, or failed."),
	)
	return document
}

func (a *API) uploadFromURL(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	address, name := args.attachment()
	request := fetch.Request{URL: address, Fields: media.Fields{
		FileName: name, Caption: args.text("caption"), Access: args.access("access"), Group: args.text("group"),
	}}
	request.Fields.Metadata = args.texts("metadata")
	if seal := args.boolean("seal"); seal != nil {
		request.Seal = *seal
	}
	if args.err != nil {
		return nil, args.err
	}
	job, err := a.deps.Fetch.Start(ctx, fetch.Caller{Principal: identity.Principal, GrantID: identity.GrantID, Assistant: true}, request)
	if err != nil {
		return nil, err
	}
	return api.NewURLUpload(job), nil
}

func (a *API) getUploadFromURL(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	id := args.jobID("jobId")
	if args.err != nil {
		return nil, args.err
	}
	job, err := a.deps.Fetch.Job(ctx, identity.Principal, id)
	if err != nil {
		return nil, err
	}
	return api.NewURLUpload(job), nil
}
