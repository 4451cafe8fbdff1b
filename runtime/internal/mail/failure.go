package mail

import (
	"errors"
	"regexp"
	"strings"
	"unicode"

	gomail "github.com/wneessen/go-mail"

	"mediastack.dev/runtime/oauth"
)

// again reports whether an error came before the letter did: over a line that was used
// before, it may be the line's.
func again(err error) bool {
	var failed *gomail.SendError
	return errors.As(err, &failed) && (failed.Reason == gomail.ErrConnCheck || failed.Reason == gomail.ErrSMTPMailFrom)
}

// refused reports whether the mail server will never take a letter. What it has against
// this client (the login, the sender) is another matter: that can be put right while
// the letter waits.
func refused(err error) bool {
	var failed *gomail.SendError
	if !errors.As(err, &failed) || failed.ErrorCode() < 500 || failed.ErrorCode() >= 530 && failed.ErrorCode() < 540 {
		return false
	}
	switch failed.Reason {
	case gomail.ErrSMTPRcptTo, gomail.ErrSMTPData, gomail.ErrSMTPDataClose:
		return true
	}
	return false
}

// maxScrubbed is how much of an error is logged, in characters.
const maxScrubbed = 300

var addressForm = regexp.MustCompile(`[^\s<>:;,"'()]+@[^\s<>:;,"'()]+`)

// scrub is the text of an error without the address and the code: mail servers like to
// repeat what they were told.
func scrub(err error, letter oauth.Letter) string {
	text := strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, err.Error())
	text = addressForm.ReplaceAllStringFunc(text, oauth.MaskAddress)
	local, _, _ := strings.Cut(letter.To, "@")
	for _, secret := range []string{letter.To, local, letter.Code} {
		// A letter or two would be found everywhere, and tell nothing.
		if len(secret) > 2 {
			text = regexp.MustCompile("(?i)"+regexp.QuoteMeta(secret)).ReplaceAllLiteralString(text, "***")
		}
	}
	if runes := []rune(text); len(runes) > maxScrubbed {
		text = string(runes[:maxScrubbed]) + "…"
	}
	return text
}
