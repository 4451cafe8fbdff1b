package delivery

import (
	"slices"
	"strconv"
	"strings"

	"mediastack.dev/runtime/settings"
)

// negotiate returns the formats of a picture that a client accepts, by the lines of its Accept header, the best first. The
// last one of formats, which every client can show, is always among them: a client that accepts none of them gets it
// (RFC 9110, section 12.5.1). AVIF and WebP must be named, since clients that cannot show them send */*, too. Of formats
// with the same weight the first one wins.
func negotiate(accept []string, formats []settings.Format) []settings.Format {
	if len(formats) == 1 {
		return formats
	}
	weights := parseAccept(accept)
	last := formats[len(formats)-1]
	weight := func(format settings.Format) int {
		if format == last {
			return weights.ofCompatible()
		}
		return weights[format.Spec().MIMEType()]
	}
	accepted := slices.DeleteFunc(slices.Clone(formats), func(f settings.Format) bool { return f != last && weight(f) == 0 })
	slices.SortStableFunc(accepted, func(a, b settings.Format) int { return weight(b) - weight(a) })
	return accepted
}

// mediaRanges has the weights of media ranges in thousandths, by the range.
type mediaRanges map[string]int

// ofCompatible returns the weight of JPEG or PNG.
func (m mediaRanges) ofCompatible() int {
	named := -1
	for _, kind := range []string{"image/jpeg", "image/png"} {
		if weight, ok := m[kind]; ok {
			named = max(named, weight)
		}
	}
	for _, kind := range []string{"image/*", "*/*"} {
		if weight, ok := m[kind]; ok && named < 0 {
			named = weight
		}
	}
	return max(0, named)
}

// parseAccept reads the lines of an Accept header. An element whose weight is malformed is ignored; other parameters are,
// too. Of a range that is there twice, the first one counts.
func parseAccept(lines []string) mediaRanges {
	ranges := mediaRanges{}
	for _, line := range lines {
		for element := range strings.SplitSeq(line, ",") {
			kind, parameters, _ := strings.Cut(element, ";")
			kind = strings.ToLower(strings.Trim(kind, " \t"))
			weight, ok := weightOf(parameters)
			if _, known := ranges[kind]; ok && !known {
				ranges[kind] = weight
			}
		}
	}
	return ranges
}

// weightOf returns the parameter q in thousandths; 1000 without one.
func weightOf(parameters string) (weight int, ok bool) {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.Trim(name, " \t"), "q") {
			continue
		}
		whole, fraction, _ := strings.Cut(strings.Trim(value, " \t"), ".")
		if whole != "0" && whole != "1" || len(fraction) > 3 || strings.Trim(fraction, "0123456789") != "" {
			return 0, false
		}
		weight, err := strconv.Atoi(whole + (fraction + "000")[:3])
		return weight, err == nil && weight <= 1000
	}
	return 1000, true
}
