package pages

import (
	"fmt"
	"slices"
	"strings"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/oauth"
)

// operationWords are what the operations do, after "only". TestLimit_HasWordsForEveryOperation.
var operationWords = map[account.Operation]string{
	account.ListMedia:             "list files",
	account.GetMedia:              "read single files",
	account.GetMediaCount:         "count files",
	account.GetTotalStorage:       "see how much is stored",
	account.SealMedia:             "keep drafts",
	account.UpdateMedia:           "change names, captions, groups and access",
	account.DeleteMedia:           "delete files",
	account.UploadMedia:           "upload files",
	account.UploadMediaFromURL:    "upload files from websites",
	account.GetUploadFromURL:      "see uploads from websites",
	account.CreateUploadSignature: "let others upload files",
	account.RequestUpload:         "ask you for files on a page",
	account.GetUpload:             "see whether these files have come",
	account.GetMediaSettings:      "see the settings for images",
	account.UpdateMediaSettings:   "change the settings for images",
	account.SearchMedia:           "search files",
	account.ListDrafts:            "list drafts",
	account.ListGroups:            "list groups",
	account.ListMetadataKeys:      "list names of details",
	account.ListDeletedMedia:      "list deleted files",
	account.RestoreMedia:          "restore deleted files",
	account.ListActivity:          "see the activity",
	account.ViewMedia:             "look at images",
}

// leaves reports whether the tool policy of the account permits anything of a scope.
func (a Account) leaves(scope Scope) bool {
	return slices.ContainsFunc(operationsOf(scope), a.Policy.Allows)
}

// operationsOf returns the operations that scopes permit, and that a tool policy can take away.
func operationsOf(scopes ...Scope) []account.Operation {
	return slices.DeleteFunc(account.Operations(), func(one account.Operation) bool {
		return one == account.GetApproval || !slices.Contains(scopes, Scope(oauth.ScopeOf(one)))
	})
}

// Limit says what the tool policy of an account leaves of scopes, as a sentence; empty if it leaves all. An
// administrator can change the policy at any time, so it is said apart from what the user allows.
func Limit(policy account.ToolPolicy, scopes []Scope) string {
	asked := operationsOf(scopes...)
	left := slices.DeleteFunc(slices.Clone(asked), func(one account.Operation) bool { return !policy.Allows(one) })
	switch {
	case len(left) == len(asked):
		return ""
	case len(left) == 0:
		return "The administrator of this account permits nothing of it."
	case policy.Tools == nil: // with readOnly
		return "The administrator of this account permits no changes: only to look."
	}
	words := make([]string, len(left))
	for i, one := range left {
		words[i] = operationWords[one]
	}
	slices.Sort(words)
	return "The administrator of this account permits only to " + joined(words) + "."
}

// Asks says which changes the account wants an owner to allow, of those that scopes and the tool policy permit; empty = none.
func Asks(policy account.ToolPolicy, scopes []Scope) string {
	permitted := slices.DeleteFunc(operationsOf(scopes...), func(one account.Operation) bool { return !policy.Allows(one) })
	var words []string
	for _, one := range []struct {
		operations []account.Operation
		words      string
	}{
		{[]account.Operation{account.DeleteMedia}, deletesThatWait(policy.Approval)},
		{[]account.Operation{account.UpdateMedia, account.SealMedia, account.RestoreMedia}, "makes files public"},
		{[]account.Operation{account.UpdateMediaSettings}, "changes the settings for images"},
	} {
		if slices.ContainsFunc(one.operations, func(operation account.Operation) bool {
			return slices.Contains(permitted, operation) && policy.Approval.RuleOf(operation) != ""
		}) {
			words = append(words, one.words)
		}
	}
	if len(words) == 0 {
		return ""
	}
	if last := len(words) - 1; last > 0 {
		words = []string{strings.Join(words[:last], ", ") + " or " + words[last]}
	}
	return "Before it " + words[0] + ", an owner of this account is asked, and has to allow it on a page of this service."
}

// deletesThatWait returns which deletes wait for an owner, after "before it".
func deletesThatWait(rules account.Approval) string {
	if rules.Delete == account.RuleBulk {
		return fmt.Sprintf("deletes more than %d files in %s", rules.BulkItems, humanWindow(rules.BulkWindow))
	}
	return "deletes files"
}

// AsksOf says which changes of the application the account wants an owner to allow.
func (p ConsentPage) AsksOf(of Account) string { return Asks(of.Policy, p.Scopes) }

// Asks says which changes of the application the account wants an owner to allow.
func (c AuthorizedApp) Asks() string { return Asks(c.Policy, c.Scopes) }

// LimitOf says what the tool policy of an account leaves of what the application asks for.
func (p ConsentPage) LimitOf(of Account) string { return Limit(of.Policy, p.Scopes) }

// Limit says what the tool policy of the account leaves of what the user has allowed.
func (c AuthorizedApp) Limit() string { return Limit(c.Policy, c.Scopes) }
