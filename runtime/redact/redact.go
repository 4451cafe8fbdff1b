// Package redact masks credentials in log lines and error messages. An error may quote
// input, and a client may send its API key in the wrong place, such as a path or a field
// name. Package fault masks public messages, and the loggers of both programs mask every
// attribute (Attr).
package redact

import (
	"log/slog"
	"regexp"
	"strings"
)

// hidden replaces a credential.
const hidden = "(hidden)"

var (
	// prefixedPattern matches API keys, access and refresh tokens, authorization codes and the
	// tokens of pages that take a file, complete or truncated, with the MAC that follows an access token.
	prefixedPattern = regexp.MustCompile(`(?i)(m(?:sk|at|rt|ac|up)_)[0-9a-z]{8,}(?:\.[0-9a-z_-]+)?`)
	// longPattern matches base64url as long as a key without its prefix, which an escape
	// (%5F, \u005f) can hide, or as a MAC. An upload signature is two of them. Hexadecimal
	// digests match too: see isRandom.
	longPattern = regexp.MustCompile(`[0-9A-Za-z_-]{40,}(?:\.[0-9A-Za-z_-]*)?`)
	// quotedPattern matches login codes in input: in quotes, or in a URL. Other numbers with
	// as many digits are sizes.
	quotedPattern = regexp.MustCompile("(['\"`/=])[0-9]{4}[ -]?[0-9]{4}($|[^0-9A-Za-z_-])")
	codePattern   = regexp.MustCompile(`^[0-9]{4}[ -]?[0-9]{4}$`)
)

// Text returns the text with every credential masked.
func Text(text string) string {
	if len(text) < 10 { // shorter than any credential
		return text
	}
	if strings.IndexByte(text, '_') >= 0 {
		text = prefixedPattern.ReplaceAllString(text, "$1"+hidden)
	}
	if len(text) >= 40 {
		text = longPattern.ReplaceAllStringFunc(text, func(run string) string {
			if isRandom(run) {
				return hidden
			}
			return run
		})
	}
	if strings.ContainsAny(text, "'\"`/=") && countDigits(text) >= 8 {
		text = quotedPattern.ReplaceAllString(text, "$1"+hidden+"$2")
		text = quotedPattern.ReplaceAllString(text, "$1"+hidden+"$2") // matches can't overlap: the first of two codes takes the character between them
	}
	return text
}

// countDigits returns how many digits a text has.
func countDigits(text string) (n int) {
	for i := range len(text) {
		if c := text[i]; c >= '0' && c <= '9' {
			n++
		}
	}
	return n
}

// publicPrefix is the prefix of OAuth client ids, which are public.
const publicPrefix = "mcl_"

// isRandom reports whether a run looks like random base64url: it has digits and letters of
// both cases.
func isRandom(run string) bool {
	return !strings.HasPrefix(run, publicPrefix) && strings.ContainsAny(run, "0123456789") && run != strings.ToLower(run) && run != strings.ToUpper(run)
}

// Secret reports whether the text contains a credential, or is a login code.
func Secret(text string) bool { return codePattern.MatchString(text) || Text(text) != text }

// Attr returns the attribute with its credentials masked. It is a
// slog.HandlerOptions.ReplaceAttr.
func Attr(_ []string, attribute slog.Attr) slog.Attr {
	switch attribute.Value.Kind() { //nolint:exhaustive // the other kinds hold no text
	case slog.KindString:
		attribute.Value = slog.StringValue(Text(attribute.Value.String()))
	case slog.KindAny:
		if err, ok := attribute.Value.Any().(error); ok {
			attribute.Value = slog.StringValue(Text(err.Error()))
		}
	}
	return attribute
}
