package pages

import (
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"time"

	"mediastack.dev/runtime/oauth"
)

// unnamedApp replaces a name that is empty or has no visible character.
const unnamedApp = "An application without a name"

// displayName returns an untrusted name as the pages show it.
func displayName(text string) string {
	if text = sanitize(text); HasVisible(text) {
		return text
	}
	return unnamedApp
}

// Title returns the name as the pages show it.
func (a Application) Title() string { return displayName(a.Name) }

// Destination describes the redirect URI. The text ends a sentence.
func (a Application) Destination() string {
	switch {
	case a.Loopback:
		return "an application on this computer"
	case a.Scheme != "":
		return "the application on this device that opens " + sanitizeHost(a.Scheme) + ": links"
	}
	return sanitizeHost(a.Host)
}

// WebsiteURL returns the website if it may be linked, else an empty string. Users take a
// link for a recommendation, so only verified applications get one.
func (a Application) WebsiteURL() string {
	page, err := url.Parse(a.Website)
	if err != nil || !a.Verified || page.Scheme != "https" || page.Host == "" || page.User != nil {
		return ""
	}
	return page.String()
}

// URL returns the link. html/template would replace a string because of its scheme.
func (p AppRedirectPage) URL() template.URL { return template.URL(p.Link) } //nolint:gosec // the configuration allows its scheme

// Title returns the name as the pages show it.
func (c AuthorizedApp) Title() string { return displayName(c.Name) }

// humanDuration returns a duration in words, rounded up.
func humanDuration(d time.Duration) string {
	count, unit := int((d+time.Second-1)/time.Second), "second"
	if count > 90 {
		count, unit = int((d+time.Minute-1)/time.Minute), "minute"
	}
	if count != 1 {
		unit += "s"
	}
	return strconv.Itoa(count) + " " + unit
}

// errorTexts are the sentences that users read for the errors of the login.
var errorTexts = map[oauth.Reason]string{
	oauth.ReasonInvalidEmail:      "Enter an e-mail address, such as ana@example.org.",
	oauth.ReasonNotLoggedIn:       "Log in first.",
	oauth.ReasonAlreadyLoggedIn:   "You are already logged in.",
	oauth.ReasonSessionExpired:    "This login has ended, has expired, or was started in another browser.",
	oauth.ReasonNoCodeSent:        "No code has been sent yet. Enter your e-mail address first.",
	oauth.ReasonMalformedCode:     fmt.Sprintf("Enter the %d digits of the code.", oauth.CodeDigits),
	oauth.ReasonIncorrectCode:     "Incorrect code. Use the code from the most recent e-mail.",
	oauth.ReasonCodeExpired:       "The code has expired. Request a new one.",
	oauth.ReasonTooManyAttempts:   "Too many incorrect codes were entered.",
	oauth.ReasonAccountNotAllowed: "You cannot authorize access to this account (any more).",
	oauth.ReasonNotOwner:          "There is no such account, or you do not own it (any more).",

	oauth.ReasonResendTooSoon:           "A code was asked for just now.",
	oauth.ReasonTooManyCodesForEmail:    "Too many codes were requested for this address.",
	oauth.ReasonTooManyCodesForNetwork:  "Too many codes were requested from your network.",
	oauth.ReasonTooManyAttemptsForEmail: "Too many codes were tried for this address.",
	oauth.ReasonTooManyRegistrations:    "Too many applications were registered from your network.",
}

// ErrorText returns the sentence for an error of the login, or false if the error has none.
func ErrorText(err error) (string, bool) {
	var reason oauth.Reason
	if !errors.As(err, &reason) {
		return "", false
	}
	text, ok := errorTexts[reason]
	return text, ok
}
