package main

import (
	"fmt"
	"strings"
)

// fill returns a document with text between the markers of a kind of run.
func fill(document, kind, text string) (string, error) {
	begin, end := "<!-- suite-times "+kind+" -->\n", "<!-- /suite-times "+kind+" -->\n"
	for _, marker := range []string{begin, end} {
		if count := strings.Count(document, marker); count != 1 {
			return "", fmt.Errorf("the line %q is in it %d times, not once", strings.TrimSpace(marker), count)
		}
	}
	before, rest, _ := strings.Cut(document, begin)
	old, after, found := strings.Cut(rest, end)
	if !found {
		return "", fmt.Errorf("the line %q is before %q", strings.TrimSpace(end), strings.TrimSpace(begin))
	}
	if strings.Contains(old, "suite-times ") {
		return "", fmt.Errorf("there is a marker of another kind of run between %q and %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return before + begin + text + end + after, nil
}
