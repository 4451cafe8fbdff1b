package delivery

import (
	"net/http"
	"strings"
)

// maxRanges is how many ranges one request may ask for; each costs a request to the
// object store. A request for more gets the whole file, as RFC 9110 allows.
const maxRanges = 16

// withRange returns the request the Range that http.ServeContent understands as RFC
// 9110 means it. Section 14.2: a Range is for GET only, and one in another unit than
// bytes is as if it were not there. What is malformed is refused.
func withRange(r *http.Request, size int64) *http.Request {
	lines := r.Header.Values("Range")
	if len(lines) == 0 {
		return r
	}
	value := ""
	if r.Method == http.MethodGet && len(lines) == 1 {
		value = readable(lines[0], size)
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

// malformed is a Range that http.ServeContent refuses. It would take some that are
// malformed, such as "bytes=+1-2".
const malformed = "bytes=?"

// readable writes a Range anew, or gives "" for one to pass over.
func readable(value string, size int64) string {
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
			continue // an empty element of a list means nothing
		case !ok || !digits(first) || !digits(last) || first+last == "" || first != "" && last != "" && above(first, last):
			return malformed
		case first == "" && strings.Trim(last, "0") == "":
			continue // the last 0 bytes are nothing that could be sent
		}
		kept = append(kept, bounded(first)+"-"+bounded(last))
	}
	if len(kept) == 0 {
		return malformed // or not satisfiable: the answer is the same
	}
	return "bytes=" + strings.Join(kept, ",")
}

// above compares numbers of any length.
func above(a, b string) bool {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) > len(b)
	}
	return a > b
}

func digits(text string) bool {
	return strings.Trim(text, "0123456789") == ""
}

// bounded keeps a position, however large, within what can be counted: it is past the
// end of any file in any case.
func bounded(position string) string {
	if significant := strings.TrimLeft(position, "0"); len(significant) > 18 {
		return strings.Repeat("9", 18)
	} else if significant != "" || position == "" {
		return significant
	}
	return "0"
}
