package oauth

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxDomain is the longest domain of an address, in bytes.
const maxDomain = 253

// MaskAddress makes an e-mail address fit for a log: who knows the person recognises
// it, nobody else learns it. ana@example.org becomes a***@example.org; what is no
// address becomes ***.
func MaskAddress(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at <= 0 {
		return "***"
	}
	first, _ := utf8.DecodeRuneInString(address)
	domain := address[at+1:]
	odd := func(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) || unicode.IsSpace(r) }
	if domain == "" || len(domain) > maxDomain || strings.ContainsFunc(domain, odd) || odd(first) {
		return "***"
	}
	return string(first) + "***@" + domain
}
