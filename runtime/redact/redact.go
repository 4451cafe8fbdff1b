// Package redact masks credentials in texts that are logged or answered. A client that
// sends its API key in the wrong place, such as a path or the name of a field, gets an
// error that quotes it; the key must not end in a log for that. Package fault masks what
// it shows to callers, and the loggers of both programs mask every attribute (Attr).
package redact

import (
	"log/slog"
	"regexp"
	"strings"
)

// hidden stands in the place of a credential.
const hidden = "(hidden)"

var (
	// prefixed are API keys, access and refresh tokens and authorization codes, whole or cut
	// off, with the MAC that follows an access token.
	prefixed = regexp.MustCompile(`(?i)(m(?:sk|at|rt|ac)_)[0-9a-z]{8,}(?:\.[0-9a-z_-]+)?`)
	// signed are upload signatures: claims and MAC in base64url.
	signed = regexp.MustCompile(`[0-9A-Za-z_-]{70,}\.[0-9A-Za-z_-]{20,}`)
	// parameters are the signatures of file URLs.
	parameters = regexp.MustCompile(`(?i)(signature(?:=|%3d))[0-9A-Za-z_-]{20,}`)
	// quoted are one-time codes in what a caller sent: in quotes, or in a URL. Other numbers
	// of as many digits are sizes.
	quoted = regexp.MustCompile("(['\"`/=])[0-9]{8}($|[^0-9A-Za-z_-])")
	code   = regexp.MustCompile(`^[0-9]{8}$`)
)

// Text returns the text with every credential masked.
func Text(text string) string {
	if len(text) < 10 { // shorter than any of them
		return text
	}
	if strings.IndexByte(text, '_') >= 0 {
		text = prefixed.ReplaceAllString(text, "$1"+hidden)
	}
	if strings.IndexByte(text, '.') >= 0 && len(text) > 90 {
		text = signed.ReplaceAllString(text, hidden)
	}
	if strings.ContainsAny(text, "=%") {
		text = parameters.ReplaceAllString(text, "$1"+hidden)
	}
	if strings.ContainsAny(text, "'\"`/=") {
		text = quoted.ReplaceAllString(text, "$1"+hidden+"$2")
		text = quoted.ReplaceAllString(text, "$1"+hidden+"$2") // of two neighbours, the first match takes the character between them
	}
	return text
}

// Secret reports whether the text holds a credential, or is a one-time code.
func Secret(text string) bool { return code.MatchString(text) || Text(text) != text }

// Attr masks credentials in an attribute; it is for slog.HandlerOptions.ReplaceAttr.
func Attr(_ []string, attribute slog.Attr) slog.Attr {
	switch attribute.Value.Kind() { //nolint:exhaustive // all others are no text
	case slog.KindString:
		attribute.Value = slog.StringValue(Text(attribute.Value.String()))
	case slog.KindAny:
		if err, ok := attribute.Value.Any().(error); ok {
			attribute.Value = slog.StringValue(Text(err.Error()))
		}
	}
	return attribute
}
