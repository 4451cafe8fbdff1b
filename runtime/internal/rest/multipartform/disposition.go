package multipartform

import (
	"mime"
	"net/url"
	"strings"
	"unicode/utf8"
)

// maxDisposition bounds a Content-Disposition, in bytes.
const maxDisposition = 8 << 10

// disposition is the parsed Content-Disposition of a part.
type disposition struct {
	kind     string // in lower case
	name     string
	fileName string // as it was sent; package media sanitizes it
}

// parseDisposition parses a Content-Disposition as clients write it in practice. Quoted names
// are raw UTF-8 in which browsers percent-encode only the quotation mark and line breaks; older
// clients escape the mark with a backslash; some do neither, or do not quote at all. filename*
// (RFC 8187) takes precedence. It reports false for a value without a type, with a duplicate
// parameter, or that is too long.
func parseDisposition(value string) (disposition, bool) {
	if len(value) > maxDisposition {
		return disposition{}, false
	}
	kind, rest, _ := strings.Cut(value, ";")
	d := disposition{kind: strings.ToLower(strings.TrimSpace(kind))}
	seen := map[string]string{}
	for rest != "" {
		var name, text string
		name, text, rest = nextParameter(rest)
		if name == "" && text == "" {
			continue // an empty parameter, as in ";;"
		}
		if _, duplicate := seen[name]; duplicate {
			return disposition{}, false
		}
		seen[name] = text
	}
	d.name = seen["name"]
	d.fileName = parseFileName(seen["filename"])
	if exact, ok := parseExtValue(seen["filename*"]); ok {
		d.fileName = exact
	} else if _, continued := seen["filename*0"]; continued || seen["filename*0*"] != "" {
		// A name in continuations, as mail programs write long ones (RFC 2231).
		if _, params, err := mime.ParseMediaType(value); err == nil {
			d.fileName = params["filename"]
		}
	}
	return d, d.kind != ""
}

// nextParameter splits the first parameter from text. The name is in lower case.
func nextParameter(text string) (name, value, rest string) {
	end := strings.IndexAny(text, "=;")
	if end < 0 || text[end] == ';' {
		name, rest, _ = strings.Cut(text, ";")
		return strings.ToLower(strings.TrimSpace(name)), "", rest
	}
	name = strings.ToLower(strings.TrimSpace(text[:end]))
	text = strings.TrimLeft(text[end+1:], " \t")
	if quoted, ok := strings.CutPrefix(text, `"`); ok {
		if value, rest, ok = unquote(quoted, true); !ok {
			// The backslash before the last quotation mark may be part of the name: C:\Pictures\.
			value, rest, ok = unquote(quoted, false)
		}
		if ok {
			return name, value, rest
		}
	}
	value, rest, _ = strings.Cut(text, ";")
	return name, strings.TrimSpace(value), rest
}

// unquote returns the value up to its closing quotation mark, which is followed by the next
// parameter or by the end. A backslash is an escape only before a quotation mark or another
// backslash: old browsers send paths unescaped.
func unquote(text string, escapes bool) (value, rest string, ok bool) {
	var read strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case escapes && c == '\\' && i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\'):
			i++
			_ = read.WriteByte(text[i]) // never fails, by its contract
		case c == '"':
			after := strings.TrimLeft(text[i+1:], " \t")
			if after == "" {
				return read.String(), "", true
			}
			if after[0] == ';' {
				return read.String(), after[1:], true
			}
			_ = read.WriteByte(c) // an unescaped quotation mark within the name
		default:
			_ = read.WriteByte(c)
		}
	}
	return "", "", false
}

// formUnescaper decodes the three characters that the HTML standard has browsers percent-encode in
// a name. Any other percent sign is literal.
var formUnescaper = strings.NewReplacer("%22", `"`, "%0D", "\r", "%0d", "\r", "%0A", "\n", "%0a", "\n")

// wordDecoder decodes encoded words (RFC 2047).
var wordDecoder = mime.WordDecoder{}

// parseFileName parses a filename parameter. It decodes encoded words, in which clients with the
// code of mail programs send what is not ASCII.
func parseFileName(text string) string {
	if strings.HasPrefix(text, "=?") && strings.HasSuffix(text, "?=") {
		if decoded, err := wordDecoder.DecodeHeader(text); err == nil && !strings.Contains(decoded, "=?") {
			return decoded
		}
	}
	return formUnescaper.Replace(text)
}

// parseExtValue parses a filename* parameter (RFC 8187), in one of the two encodings that were
// ever required.
func parseExtValue(text string) (string, bool) {
	encoding, rest, ok := strings.Cut(text, "'")
	_, coded, another := strings.Cut(rest, "'")
	if !ok || !another {
		return "", false
	}
	decoded, err := url.PathUnescape(coded)
	if err != nil {
		return "", false
	}
	switch {
	case strings.EqualFold(encoding, "UTF-8"):
		return decoded, utf8.ValidString(decoded)
	case strings.EqualFold(encoding, "ISO-8859-1"):
		runes := make([]rune, 0, len(decoded))
		for _, b := range []byte(decoded) {
			runes = append(runes, rune(b))
		}
		return string(runes), true
	}
	return "", false
}
