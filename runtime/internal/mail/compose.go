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

	"github.com/google/uuid"
	gomail "github.com/wneessen/go-mail"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/oauth"
)

//go:embed layout.html login_email.txt login_email.html notice_email.txt notice_email.html approval_email.txt approval_email.html
var templates embed.FS

// composer renders e-mails. Except for the code, their content comes from the
// configuration. The name of the client is left out: every client can register,
// and could otherwise send its own text in the service's name.
type composer struct {
	from  mail.Address
	brand string
	host  string
	text  *text.Template
	html  *html.Template

	noticeText *text.Template
	noticeHTML *html.Template

	approvalText *text.Template
	approvalHTML *html.Template
	base         string
}

// newComposer returns the composer of an enabled configuration, else an empty one.
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
	c := composer{from: *from, brand: brand, host: base.Host, base: strings.TrimRight(baseURL, "/")}
	if c.text, err = text.ParseFS(templates, "login_email.txt"); err != nil {
		return composer{}, err
	}
	if c.html, err = html.ParseFS(templates, "layout.html", "login_email.html"); err != nil {
		return composer{}, err
	}
	if c.noticeText, err = text.ParseFS(templates, "notice_email.txt"); err != nil {
		return composer{}, err
	}
	if c.noticeHTML, err = html.ParseFS(templates, "layout.html", "notice_email.html"); err != nil {
		return composer{}, err
	}
	if c.approvalText, err = text.ParseFS(templates, "approval_email.txt"); err != nil {
		return composer{}, err
	}
	c.approvalHTML, err = html.ParseFS(templates, "layout.html", "approval_email.html")
	return c, err
}

var errInvalidRecipient = errors.New("invalid recipient address")

// compose renders an e-mail. id is the same for all attempts. The subject and the first line do not contain the code:
// locked screens show both, and mail servers log the subject.
func (c composer) compose(id uuid.UUID, email oauth.LoginEmail, now time.Time) (*gomail.Msg, error) {
	message, err := c.message(email.To, "Your code to log in to "+c.brand, now, c.messageID(id, email.To, email.ExpiresAt))
	if err != nil {
		return nil, err
	}
	data := struct{ Brand, Host, Code, Until string }{c.brand, c.host, email.Code, email.ExpiresAt.UTC().Format("15:04 UTC")}
	if err := message.SetBodyTextTemplate(c.text, data); err != nil {
		return nil, err
	}
	return message, message.AddAlternativeHTMLTemplate(c.html, data)
}

// message returns an e-mail without a body.
func (c composer) message(to, subject string, now time.Time, messageID string) (*gomail.Msg, error) {
	if _, ok := account.ParseEmail(to); !ok {
		return nil, errInvalidRecipient
	}
	message := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	message.FromMailAddress(&c.from)
	if err := message.To(to); err != nil {
		return nil, errInvalidRecipient // the library's error contains the address
	}
	message.Subject(subject)
	message.SetDateWithValue(now)
	message.SetMessageIDWithValue(messageID)
	// Suppresses automatic replies (RFC 3834).
	message.SetGenHeader("Auto-Submitted", "auto-generated")
	message.SetGenHeader("X-Auto-Response-Suppress", "All")
	return message, nil
}

// composeNotice renders an e-mail about a rejected file. id is the same for all attempts.
func (c composer) composeNotice(id uuid.UUID, email gate.NoticeEmail, now time.Time) (*gomail.Msg, error) {
	message, err := c.message(email.To, "A file was rejected by "+c.brand, now, c.messageID(id, email.To, email.At))
	if err != nil {
		return nil, err
	}
	data := struct{ Brand, Host, Account, Item, Finding, At string }{c.brand, c.host, accountName(email.DisplayName, email.Namespace, email.Account), email.ItemID.String(), email.Finding,
		email.At.UTC().Format("2 Jan 2006, 15:04 UTC")}
	if err := message.SetBodyTextTemplate(c.noticeText, data); err != nil {
		return nil, err
	}
	return message, message.AddAlternativeHTMLTemplate(c.noticeHTML, data)
}

// composeApproval renders an e-mail about what waits for an owner. It has no name of an application and none of a file, which others choose.
func (c composer) composeApproval(id uuid.UUID, email approval.Email, now time.Time) (*gomail.Msg, error) {
	message, err := c.message(email.To, "Something waits for your decision at "+c.brand, now, c.messageID(id, email.To, email.At))
	if err != nil {
		return nil, err
	}
	const layout = "2 Jan 2006, 15:04 UTC"
	page := c.base + approval.Page + "?" + url.Values{"approval": {email.ApprovalID.String()}}.Encode()
	data := struct{ Brand, Host, Account, URL, At, Until string }{c.brand, c.host, accountName(email.DisplayName, email.Namespace, email.Account), page, email.At.UTC().Format(layout), email.Until.UTC().Format(layout)}
	if err := message.SetBodyTextTemplate(c.approvalText, data); err != nil {
		return nil, err
	}
	return message, message.AddAlternativeHTMLTemplate(c.approvalHTML, data)
}

// messageID returns the same ID for every delivery attempt, so that mail programs can show
// an e-mail that was accepted twice only once.
func (c composer) messageID(id uuid.UUID, to string, at time.Time) string {
	return messageKey(id, to, at) + c.from.Address[strings.LastIndexByte(c.from.Address, '@'):]
}

// messageKey returns the part of the Message-ID before the @, which the log has. It does not depend on the code.
func messageKey(id uuid.UUID, to string, at time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", id, to, at.UnixNano()))
	return hex.EncodeToString(sum[:16])
}
