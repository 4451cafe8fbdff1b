package mail

import (
	"errors"
	"regexp"
	"strings"
	"unicode"

	gomail "github.com/wneessen/go-mail"

	"mediastack.dev/runtime/oauth"
)

// isStaleConn reports whether delivery failed before the server accepted the sender. On a
// reused connection the cause may be the connection itself.
func isStaleConn(err error) bool {
	var failed *gomail.SendError
	return errors.As(err, &failed) && (failed.Reason == gomail.ErrConnCheck || failed.Reason == gomail.ErrSMTPMailFrom)
}

// isPermanent reports whether the mail server rejected the e-mail permanently. Rejections of
// the SMTP client itself (authentication, sender) are not permanent: an operator can fix
// them while the e-mail is queued.
func isPermanent(err error) bool {
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

// maxRedactedError bounds the error text in a log line, in characters.
const maxRedactedError = 300

var emailPattern = regexp.MustCompile(`[^\s<>:;,"'()]+@[^\s<>:;,"'()]+`)

// redactError returns the text of an error without e-mail addresses and the code, because
// mail servers repeat their input in error messages.
func redactError(err error, email oauth.LoginEmail) string {
	text := strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, err.Error())
	text = emailPattern.ReplaceAllStringFunc(text, oauth.MaskEmail)
	local, _, _ := strings.Cut(email.To, "@")
	for _, secret := range []string{email.To, local, email.Code} {
		// One or two characters would match everywhere and identify no user.
		if len(secret) > 2 {
			text = regexp.MustCompile("(?i)"+regexp.QuoteMeta(secret)).ReplaceAllLiteralString(text, "***")
		}
	}
	if runes := []rune(text); len(runes) > maxRedactedError {
		text = string(runes[:maxRedactedError]) + "…"
	}
	return text
}
