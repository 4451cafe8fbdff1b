package oauthhttp

import (
	"fmt"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/media"
)

// ceilingFacts returns what an application has used of its ceilings, and all of the account of theirs, and when the count begins anew.
func ceilingFacts(ceilings []account.CeilingUse) (facts []pages.Fact) {
	for _, one := range ceilings {
		fact := pages.Fact{}
		switch one.Kind {
		case account.CeilingDeletes:
			fact = pages.Fact{Name: "Deletes in an hour", Text: fmt.Sprintf("%d of %d", one.Used, one.Limit)}
		case account.CeilingFetches:
			fact = pages.Fact{Name: "Downloads from the web in a day", Text: fmt.Sprintf("%d of %d", one.Used, one.Limit)}
		case account.CeilingUploadBytes:
			fact = pages.Fact{Name: "Uploads in a day", Text: fmt.Sprintf("%s of %s", media.HumanBytes(one.Used), media.HumanBytes(one.Limit))}
		}
		if one.Total {
			fact.Name += ", by all applications"
		}
		if !one.Ends.IsZero() {
			fact.Text += ", until " + one.Ends.UTC().Format("2 January 2006, 15:04 UTC")
		}
		facts = append(facts, fact)
	}
	return facts
}
