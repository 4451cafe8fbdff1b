package oauth

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"mediastack.dev/runtime/account"
)

// ParseEmail returns the canonical form of an e-mail address that a user entered. The rules
// are those of the owners of an account. Invalid if the text is not exactly one address.
func ParseEmail(text string) (string, error) {
	email, ok := account.ParseEmail(strings.TrimSpace(text))
	if !ok {
		return "", ReasonInvalidEmail.Fault()
	}
	return email, nil
}

// maxDomain bounds the domain of an e-mail address, in bytes.
const maxDomain = 253

// MaskEmail masks an e-mail address for logs: ana@example.org becomes a***@example.org.
// A reader who knows the user recognizes it. Any other text becomes ***.
func MaskEmail(email string) string {
	at := strings.LastIndexByte(email, '@')
	if at <= 0 {
		return "***"
	}
	first, _ := utf8.DecodeRuneInString(email)
	domain := email[at+1:]
	unprintable := func(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) || unicode.IsSpace(r) }
	if domain == "" || len(domain) > maxDomain || strings.ContainsFunc(domain, unprintable) || unprintable(first) {
		return "***"
	}
	return string(first) + "***@" + domain
}
