package pages

import (
	"html/template"
	"net/url"
	"strconv"
	"time"
)

// nameless stands for an application whose name is empty, or all invisible.
const nameless = "An application without a name"

func name(text string) string {
	if text = plain(text); Visible(text) {
		return text
	}
	return nameless
}

// Title is the name as it is shown.
func (a Application) Title() string { return name(a.Name) }

// Destination says where the answer goes, to end a sentence with.
func (a Application) Destination() string {
	switch {
	case a.Loopback:
		return "a program on this computer"
	case a.Scheme != "":
		return "the program on this device that opens " + host(a.Scheme) + ": links"
	}
	return host(a.Host)
}

// Page is the website, when it may be linked: a link is a recommendation.
func (a Application) Page() string {
	page, err := url.Parse(a.Website)
	if err != nil || !a.Verified || page.Scheme != "https" || page.Host == "" || page.User != nil {
		return ""
	}
	return page.String()
}

// URL is the link, which html/template would refuse for its scheme.
func (p ReturnPage) URL() template.URL { return template.URL(p.Link) } //nolint:gosec // its scheme is one of the configuration's

// Title is the name as it is shown.
func (c Connection) Title() string { return name(c.Name) }

// scopeWords say what the scopes permit: as a heading, explained, and within a line.
var scopeWords = map[Scope]struct{ title, detail, verb string }{
	"media:read":  {"See your files", "List and download the account’s files, private ones too.", "see files"},
	"media:write": {"Change your files", "Upload, seal and delete files, and change how images are converted.", "change files"},
}

// Title says what a scope permits.
func (s Scope) Title() string {
	if words, ok := scopeWords[s]; ok {
		return words.title
	}
	return plain(string(s))
}

// Detail says more about it, if there is more.
func (s Scope) Detail() string { return scopeWords[s].detail }

// Verb says what it permits after "may".
func (s Scope) Verb() string {
	if words, ok := scopeWords[s]; ok {
		return words.verb
	}
	return plain(string(s))
}

// span says a duration as people do, rounded up.
func span(d time.Duration) string {
	count, unit := int((d+time.Second-1)/time.Second), "second"
	if count > 90 {
		count, unit = int((d+time.Minute-1)/time.Minute), "minute"
	}
	if count != 1 {
		unit += "s"
	}
	return strconv.Itoa(count) + " " + unit
}
