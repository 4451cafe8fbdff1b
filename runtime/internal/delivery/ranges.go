package delivery

import (
	"net/http"
	"strings"
)

// maxRanges is the maximum of ranges in a request; each costs a request to the object store.
// A request for more gets the whole file, as RFC 9110 allows.
const maxRanges = 16

// sanitizeRange returns the request with a Range that http.ServeContent handles as RFC 9110
// specifies. Section 14.2: Range applies to GET only, and other units than bytes are
// ignored. A malformed Range is rejected.
func sanitizeRange(r *http.Request, size int64) *http.Request {
	lines := r.Header.Values("Range")
	if len(lines) == 0 {
		return r
	}
	value := ""
	if r.Method == http.MethodGet && len(lines) == 1 {
		value = normalizeRange(lines[0], size)
	}
	if value == lines[0] {
		return r
	}
	r = r.Clone(r.Context())
	if r.Header.Del("Range"); value != "" {
		r.Header.Set("Range", value)
	}
	return r
}

// malformedRange is a Range that http.ServeContent rejects. It would accept some malformed
// ones, such as "bytes=+1-2".
const malformedRange = "bytes=?"

// normalizeRange returns a Range in canonical form, "" if it is to be ignored.
func normalizeRange(value string, size int64) string {
	unit, set, _ := strings.Cut(value, "=")
	if !strings.EqualFold(strings.TrimSpace(unit), "bytes") {
		return ""
	}
	specs := strings.Split(set, ",")
	if len(specs) > maxRanges || size == 0 {
		return ""
	}
	var kept []string
	for _, spec := range specs {
		spec = strings.Trim(spec, " \t")
		first, last, ok := strings.Cut(spec, "-")
		switch {
		case spec == "":
			continue // empty list elements are ignored
		case !ok || !digits(first) || !digits(last) || first+last == "" || first != "" && last != "" && greater(first, last):
			return malformedRange
		case first == "" && strings.Trim(last, "0") == "":
			continue // the last 0 bytes: not satisfiable
		}
		kept = append(kept, clamp(first)+"-"+clamp(last))
	}
	if len(kept) == 0 {
		return malformedRange // or not satisfiable: the response is the same
	}
	return "bytes=" + strings.Join(kept, ",")
}

// greater reports whether a > b, decimal numbers of any length.
func greater(a, b string) bool {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) > len(b)
	}
	return a > b
}

func digits(text string) bool {
	return strings.Trim(text, "0123456789") == ""
}

// clamp returns a position that fits into an int64. A larger one is beyond the end of any
// file anyway.
func clamp(position string) string {
	if significant := strings.TrimLeft(position, "0"); len(significant) > 18 {
		return strings.Repeat("9", 18)
	} else if significant != "" || position == "" {
		return significant
	}
	return "0"
}
