package mcp

import (
	"fmt"
	"strings"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
)

// instructions returns the instructions of the server, for a model that has the tools of a view.
func (a *API) instructions(v view) string {
	text := []string{"Stores the media files of one account."}
	add := func(needed account.Operation, sentence string) {
		if v.offers(needed) {
			text = append(text, sentence)
		}
	}
	if ways := v.either(account.UploadMedia, account.UploadMediaFromURL); ways != "" && v.offers(account.SealMedia) {
		text = append(text, "Storing a file takes two steps: "+ways+" makes a draft, and seal_media makes it permanent. "+
			"A draft that is not sealed within "+a.draftLifetime()+" is deleted; until it is sealed, lists, counts and totals do not include it.")
	}
	add(account.UploadMedia, fmt.Sprintf("%s takes files of up to %d bytes; ", account.UploadMedia, maxFile)+a.largeFileHint(v))
	if lists := v.either(account.ListMedia, account.SearchMedia, account.ListDrafts, account.ListDeletedMedia); lists != "" && v.has(account.ToolsetSlim) {
		text = append(text, "The items of lists are short and have no URLs: the argument fields chooses their members"+v.when(account.GetMedia, ", and get_media returns all of one item")+".")
	}
	add(account.SearchMedia, "search_media finds sealed items"+v.when(account.ListDrafts, ", and list_drafts lists those that are not sealed yet")+".")
	add(account.UpdateMedia, fmt.Sprintf("update_media changes one item or up to %d of them; with dryRun it only tells what would change.", maxUpdates))
	add(account.ViewMedia, "view_media shows what is in an image."+v.describeHelp())
	add(account.RestoreMedia, "restore_media restores a deleted item"+v.when(account.ListDeletedMedia, "; list_deleted_media lists them")+".")
	return strings.Join(text, " ")
}

// largeFileHint returns how to upload a file that is too large for upload_media.
func (a *API) largeFileHint(v view) string {
	if v.offers(account.RequestUpload) {
		return fmt.Sprintf("for larger ones, or files on the user's device, call %s and give the user its page.", account.RequestUpload)
	}
	if !v.offers(account.CreateUploadSignature) {
		return "for larger ones, have the user upload the file in another way."
	}
	return fmt.Sprintf("for larger ones call %s and have the file sent from its location: POST %s as multipart/form-data with the part file, or TUS 1.0.0 at %s, with the signature in the header %s.",
		account.CreateUploadSignature, a.base+api.UploadRoute, a.base+api.ResumableRoute, a.deps.Auth.SignatureHeader)
}

// draftsEnd begins the sentence that says when a draft is deleted.
func (v view) draftsEnd() string {
	if v.offers(account.SealMedia) {
		return "Call seal_media with it afterwards: a draft that is not sealed is deleted"
	}
	return "A draft that is not sealed is deleted"
}

// groupFilter says which tools filter by a group.
func (v view) groupFilter() string {
	if tools := v.either(account.ListMedia, account.SearchMedia); tools != "" {
		return "; " + tools + " can filter by it"
	}
	return ""
}
