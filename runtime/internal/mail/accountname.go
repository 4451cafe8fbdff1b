package mail

import (
	"regexp"
	"strings"
	"unicode"
)

// maxAccountName bounds the name of an account in an e-mail, in characters.
const maxAccountName = 100

// addressLike is what mail programs make a link of, or that looks like one.
var addressLike = regexp.MustCompile(`[@/\\]|(?i:\bwww\b)|[\pL\d]\.\pL`)

// accountName returns how an e-mail names an account to its owners: by its display name, or without one by the name and the namespace of its
// resource. Who may create an account chooses the display name and the recipients, so a name that could lead to another site is not shown.
func accountName(displayName, namespace, name string) string {
	visible := strings.Join(strings.FieldsFunc(displayName, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }), " ")
	if visible == "" || len([]rune(visible)) > maxAccountName || addressLike.MatchString(visible) {
		return name + " in " + namespace
	}
	return visible
}
