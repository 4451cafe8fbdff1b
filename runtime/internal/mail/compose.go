package mail

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	html "html/template"
	"net/mail"
	"net/url"
	"strings"
	text "text/template"
	"time"

	gomail "github.com/wneessen/go-mail"

	"mediastack.dev/runtime/oauth"
)

//go:embed letter.txt letter.html
var templates embed.FS

// composer writes letters. What is in them comes from configuration, but for the code:
// the name of the application that asks is a stranger's, and a mail that carries it
// would be a stranger's mail in the service's name.
type composer struct {
	from  mail.Address
	brand string
	host  string
	text  *text.Template
	html  *html.Template
}

// newComposer makes one; of mail that is off it is never used.
func newComposer(cfg Config, brand, baseURL string) (composer, error) {
	if !cfg.Enabled() {
		return composer{}, nil
	}
	from, err := cfg.sender(brand)
	if err != nil {
		return composer{}, err
	}
	base, err := url.Parse(baseURL)
	if err != nil || base.Host == "" {
		return composer{}, fmt.Errorf("the base URL must look like https://host[:port], not %q", baseURL)
	}
	c := composer{from: *from, brand: brand, host: base.Host}
	if c.text, err = text.ParseFS(templates, "letter.txt"); err != nil {
		return composer{}, err
	}
	c.html, err = html.ParseFS(templates, "letter.html")
	return c, err
}

var errAddress = errors.New("this is no address that a letter can go to")

// compose writes a letter. The subject and the first line don't have the code: locked
// screens show them, and mail servers log the one.
func (c composer) compose(letter oauth.Letter, now time.Time) (*gomail.Msg, error) {
	if !deliverable(letter.To) {
		return nil, errAddress
	}
	message := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	message.FromMailAddress(&c.from)
	if err := message.To(letter.To); err != nil {
		return nil, errAddress // the library's words hold the address
	}
	message.Subject("Your code to log in to " + c.brand)
	message.SetDateWithValue(now)
	message.SetMessageIDWithValue(c.messageID(letter))
	// Whoever answers mail while its owner is away should not answer this.
	message.SetGenHeader("Auto-Submitted", "auto-generated")
	message.SetGenHeader("X-Auto-Response-Suppress", "All")
	data := struct{ Brand, Host, Code, Until string }{c.brand, c.host, letter.Code, letter.ExpiresAt.UTC().Format("15:04 UTC")}
	if err := message.SetBodyTextTemplate(c.text, data); err != nil {
		return nil, err
	}
	return message, message.AddAlternativeHTMLTemplate(c.html, data)
}

// messageID is the same for every attempt, so that a letter which was taken twice can
// be shown once. It tells nothing of the code.
func (c composer) messageID(letter oauth.Letter) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %d", letter.ID, letter.To, letter.ExpiresAt.UnixNano()))
	return hex.EncodeToString(sum[:16]) + c.from.Address[strings.LastIndexByte(c.from.Address, '@'):]
}
