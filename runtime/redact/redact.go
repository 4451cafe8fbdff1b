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
	// long are runs of the letters of base64url that are as long as a key without its prefix,
	// which escapes (%5F, \u005f) can hide, and as a MAC. Upload signatures are two of them.
	// Digests in hexadecimal have as many letters, but of one case: see random.
	long = regexp.MustCompile(`[0-9A-Za-z_-]{40,}(?:\.[0-9A-Za-z_-]*)?`)
	// quoted are one-time codes in what a caller sent: in quotes, or in a URL. Other numbers
	// of as many digits are sizes.
	quoted = regexp.MustCompile("(['\"`/=])[0-9]{4}[ -]?[0-9]{4}($|[^0-9A-Za-z_-])")
	code   = regexp.MustCompile(`^[0-9]{4}[ -]?[0-9]{4}$`)
)

// Text returns the text with every credential masked.
func Text(text string) string {
	if len(text) < 10 { // shorter than any of them
		return text
	}
	if strings.IndexByte(text, '_') >= 0 {
		text = prefixed.ReplaceAllString(text, "$1"+hidden)
	}
	if len(text) >= 40 {
		text = long.ReplaceAllStringFunc(text, func(run string) string {
			if random(run) {
				return hidden
			}
			return run
		})
	}
	if strings.ContainsAny(text, "'\"`/=") {
		text = quoted.ReplaceAllString(text, "$1"+hidden+"$2")
		text = quoted.ReplaceAllString(text, "$1"+hidden+"$2") // of two neighbours, the first match takes the character between them
	}
	return text
}

// publicPrefix begins the ids of OAuth clients, which are no secrets.
const publicPrefix = "mcl_"

// random reports whether a run looks drawn: it has digits and letters of both cases.
func random(run string) bool {
	return !strings.HasPrefix(run, publicPrefix) && strings.ContainsAny(run, "0123456789") && run != strings.ToLower(run) && run != strings.ToUpper(run)
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
