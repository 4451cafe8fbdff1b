package rest

import (
	"mime"
	"net/url"
	"strings"
	"unicode/utf8"
)

// dispositionLimit bounds the Content-Disposition that is taken apart.
const dispositionLimit = 8 << 10

// disposition is the Content-Disposition of a part, as its sender meant it.
type disposition struct {
	kind     string // in lower case
	name     string
	fileName string // as it was sent: package media decides what remains of it
}

// readDisposition reads what clients really send. Names in quotation marks are raw
// UTF-8 in which browsers write only the mark itself and line breaks with percent
// signs; older clients put a backslash before the mark; some forget to do either, or
// to quote at all. filename* (RFC 8187) is exact and wins. It gives false for what has
// no kind, says one thing twice, or is too long.
func readDisposition(value string) (disposition, bool) {
	if len(value) > dispositionLimit {
		return disposition{}, false
	}
	kind, rest, _ := strings.Cut(value, ";")
	d := disposition{kind: strings.ToLower(strings.TrimSpace(kind))}
	seen := map[string]string{}
	for rest != "" {
		var name, text string
		name, text, rest = nextParameter(rest)
		if name == "" && text == "" {
			continue // an empty parameter: a semicolon too many
		}
		if _, twice := seen[name]; twice {
			return disposition{}, false
		}
		seen[name] = text
	}
	d.name = seen["name"]
	d.fileName = plainName(seen["filename"])
	if exact, ok := exactName(seen["filename*"]); ok {
		d.fileName = exact
	} else if _, pieces := seen["filename*0"]; pieces || seen["filename*0*"] != "" {
		// A name in pieces, as mail programs write long ones (RFC 2231).
		if _, params, err := mime.ParseMediaType(value); err == nil {
			d.fileName = params["filename"]
		}
	}
	return d, d.kind != ""
}

// nextParameter cuts the first parameter off. The name is in lower case.
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
			// Perhaps it ends in a backslash that is none before a mark: C:\Pictures\.
			value, rest, ok = unquote(quoted, false)
		}
		if ok {
			return name, value, rest
		}
	}
	value, rest, _ = strings.Cut(text, ";")
	return name, strings.TrimSpace(value), rest
}

// unquote reads up to the mark that ends the value: one that the next parameter or
// the end follows. A backslash stands for what comes after it only before a mark or
// another backslash: old browsers send paths as they are.
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
			_ = read.WriteByte(c) // a mark within the name that nobody escaped
		default:
			_ = read.WriteByte(c)
		}
	}
	return "", "", false
}

// escaped is what the HTML standard has browsers write for three characters of a plain
// name. No other percent sign stands for anything.
var escaped = strings.NewReplacer("%22", `"`, "%0D", "\r", "%0d", "\r", "%0A", "\n", "%0a", "\n")

// words decodes RFC 2047.
var words = mime.WordDecoder{}

// plainName reads a filename. One that consists of encoded words is what it says: so
// clients that descend from mail programs send what is not ASCII.
func plainName(text string) string {
	if strings.HasPrefix(text, "=?") && strings.HasSuffix(text, "?=") {
		if decoded, err := words.DecodeHeader(text); err == nil && !strings.Contains(decoded, "=?") {
			return decoded
		}
	}
	return escaped.Replace(text)
}

// exactName reads a filename* (RFC 8187), in one of the two encodings that ever were
// required.
func exactName(text string) (string, bool) {
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
