package webhook

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"mediastack.dev/runtime/weburl"
)

// MaxURL is the maximum length of a URL, in bytes.
const MaxURL = 2048

// ParseURL returns a URL to which deliveries can be sent, as far as no setting decides. It has no fragment, which is not sent. The text of an
// error says what is wrong after "the URL", and has no part of the URL: that may hold a token.
func ParseURL(text string) (*url.URL, error) {
	if len(text) > MaxURL || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) || strings.Contains(text, `\`) {
		return nil, fmt.Errorf("must be one of at most %d bytes in ASCII, without white space and backslashes", MaxURL)
	}
	target, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("is malformed")
	}
	target.Fragment, target.RawFragment = "", ""
	switch {
	case target.Scheme != "https" && target.Scheme != "http":
		return nil, errors.New("must begin with https:// or http://")
	case target.User != nil:
		return nil, errors.New("must not have a user name or password")
	case target.Opaque != "" || !weburl.IsHost(target.Hostname()):
		return nil, errors.New("must have a host: a name of DNS in ASCII, or an IP address")
	case weburl.PortOf(target) == 0:
		return nil, errors.New("must have a port from 1 to 65535, or none")
	}
	return target, nil
}
