package account

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"mediastack.dev/runtime/fault"
)

// maxEmail is the maximum length of an e-mail address in bytes (RFC 5321).
const maxEmail = 254

// emailPattern is a dot-atom (RFC 5322) and a domain of at least two labels, in lower
// case. The schema of MediaAccount has the same pattern for both cases.
var emailPattern = regexp.MustCompile("^[a-z0-9!#$%&'*+/=?^_`{|}~-]+([.][a-z0-9!#$%&'*+/=?^_`{|}~-]+)*" +
	`@[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?([.][a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)+$`)

// ParseEmail returns the canonical form of an e-mail address, and reports whether text is
// one. The canonical form is in lower case and has an international domain in its ASCII
// form (xn--...): two spellings of one address have the same. Owners are stored, and
// logins look them up, in this form only.
func ParseEmail(text string) (string, bool) {
	local, domain, found := strings.Cut(text, "@")
	if !found || len(text) > maxEmail || !ascii(local) || !utf8.ValidString(domain) {
		return "", false
	}
	if !ascii(domain) {
		var err error
		if domain, err = idna.Lookup.ToASCII(domain); err != nil {
			return "", false
		}
	}
	email := strings.ToLower(local + "@" + domain)
	if len(email) > maxEmail || !emailPattern.MatchString(email) {
		return "", false
	}
	return email, true
}

// parseOwners returns the canonical forms of owners, sorted, each once.
func parseOwners(owners []string) ([]string, error) {
	emails := make([]string, 0, len(owners))
	for _, owner := range owners {
		email, ok := ParseEmail(owner)
		if !ok {
			return nil, fault.New(fault.Invalid, "owner %q is not an e-mail address", owner)
		}
		emails = append(emails, email)
	}
	slices.Sort(emails)
	return slices.Compact(emails), nil
}

func ascii(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > 0x7f })
}
