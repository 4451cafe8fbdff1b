package oauth

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// CodeDigits is the length of a login code. Codes are short because users type them; the
// number of attempts is limited instead. Six digits would withstand a fast attack. With a few
// attempts per day on each of ten thousand owners, an attacker would take over one account
// in weeks; eight digits hold for years.
const CodeDigits = 8

// LoginCode is a new one-time code for a login session.
type LoginCode struct {
	Email     string
	MAC       []byte
	Now       time.Time
	ExpiresAt time.Time
	// EncryptedEmail is the e-mail with the code, the payload of its task.
	EncryptedEmail []byte
}

// SendCode creates a login code and queues an e-mail with it. network is the source of the
// request. Whether the address belongs to an account is checked when the e-mail is about to
// be sent, so that SendCode behaves the same for all addresses. Invalid for a malformed
// address, Busy if a rate limit is exceeded.
func (s *Service) SendCode(ctx context.Context, session LoginSession, address string, network string) (err error) {
	defer func() { countStep(s.metrics.codes, err) }()
	email, err := ParseEmail(address)
	if err != nil {
		return err
	}
	if session.LoggedIn() {
		return ReasonAlreadyLoggedIn.Fault()
	}
	if session.Attempts >= s.cfg.MaxAttempts {
		return ReasonTooManyAttempts.Fault()
	}
	number, err := rand.Int(rand.Reader, big.NewInt(100_000_000))
	if err != nil {
		return fmt.Errorf("generate a login code: %w", err)
	}
	digits := fmt.Sprintf("%0*d", CodeDigits, number)
	now := s.Now()
	code := LoginCode{Email: email, MAC: s.mac(codeMACInput(session.ID, email, digits)...), Now: now, ExpiresAt: now.Add(s.cfg.CodeTTL)}
	plain, err := json.Marshal(LoginEmail{To: email, Code: digits, ExpiresAt: code.ExpiresAt})
	if err != nil {
		return fmt.Errorf("encode an e-mail: %w", err)
	}
	code.EncryptedEmail = s.Encrypter.Encrypt(plain)
	err = s.Store.SetLoginCode(ctx, session.ID, session.CookieHash, code, []RateLimit{
		s.loginPause(session.ID, email),
		// Those of the asker come first, so that nobody uses up alone what an address may get.
		s.rateLimit("codes_per_ip", network, s.cfg.CodesPerIP, ReasonTooManyCodesForNetwork),
		s.rateLimit("codes_per_email_and_ip", network+" "+email, s.cfg.CodesPerEmail, ReasonTooManyCodesForEmail),
		s.addressPause(email),
		s.rateLimit("codes_per_email", email, askersOfCodes*s.cfg.CodesPerEmail, ReasonTooManyCodesForEmail),
	})
	if err != nil {
		return sessionExpired(err)
	}
	s.Log.LogAttrs(ctx, slog.LevelInfo, "login code requested", slog.String("login", session.ID.String()), slog.String("email", MaskEmail(email)))
	if s.EmailQueued != nil {
		s.EmailQueued()
	}
	return nil
}

// askersOfCodes is how many client networks can use up Config.CodesPerEmail for one address before the address gets no other code: one of someone else
// leaves the owner as many as there were before.
const askersOfCodes = 2

// codesInPause are the codes that an e-mail address gets in Config.ResendAfter: the one of a login, and the one
// of a second login, in another browser or for another application, whose user would have to wait otherwise.
const codesInPause = 2

// loginPause permits one code for an e-mail address in Config.ResendAfter in one login. It does not delay a
// user who corrects a mistyped address.
func (s *Service) loginPause(id uuid.UUID, email string) RateLimit {
	limit := s.rateLimit("resend_login", id.String()+" "+email, 1, ReasonResendTooSoon)
	limit.Window = s.cfg.ResendAfter
	return limit
}

// addressPause permits codesInPause for an e-mail address in Config.ResendAfter, across all logins and replicas,
// so that nobody fills a mailbox at once. The limit of codes per hour holds besides.
func (s *Service) addressPause(email string) RateLimit {
	limit := s.rateLimit("resend", email, codesInPause, ReasonResendTooSoon)
	limit.Window = s.cfg.ResendAfter
	return limit
}

// SentAgo returns how long ago a code was sent that lets nobody request another one for this address yet.
func (s *Service) SentAgo(tooSoon error) time.Duration {
	return max(0, s.cfg.ResendAfter-fault.From(tooSoon).RetryAfter)
}

// ResendIn returns the time until another code can be requested.
func (s *Service) ResendIn(session LoginSession) time.Duration {
	if session.CodeSentAt == nil {
		return 0
	}
	return max(0, session.CodeSentAt.Add(s.cfg.ResendAfter).Sub(s.Now()))
}

// codeMACInput binds a code to its session and its e-mail address.
func codeMACInput(id uuid.UUID, email, digits string) []string {
	return []string{"login_code", id.String(), email, digits}
}

// VerifyCode logs the browser in if text is the newest code of its session, or the fixed code of its address, and returns the
// new value of the cookie. The old cookie, which an attacker may have planted (session
// fixation), becomes invalid. Invalid for a wrong code, NotFound if the session has no
// attempts left, Busy if there were too many attempts for the e-mail address and this is not the first one of the session.
func (s *Service) VerifyCode(ctx context.Context, session LoginSession, text string) (cookie string, err error) {
	defer func() { countStep(s.metrics.logins, err) }()
	if session.Email == "" {
		return "", ReasonNoCodeSent.Fault()
	}
	digits, err := s.parseCode(text)
	if err != nil {
		return "", err
	}
	if session.LoggedIn() {
		return "", ReasonAlreadyLoggedIn.Fault()
	}
	current, err := s.Store.ConsumeAttempt(ctx, session.ID, session.CookieHash, s.cfg.MaxAttempts, s.Now(), s.attemptLimits)
	if fault.Is(err, fault.NotFound) {
		return "", ReasonTooManyAttempts.Fault()
	}
	if err != nil {
		return "", err
	}
	now := s.Now()
	fixed := false
	if len(digits) == ReviewCodeDigits {
		if fixed, err = s.isReviewCode(ctx, current, digits); err != nil {
			return "", err
		}
	}
	switch {
	case current.CodeMAC == nil || current.CodeExpiresAt == nil || !now.Before(*current.CodeExpiresAt):
		return "", ReasonCodeExpired.Fault()
	case fixed, s.verifyMAC(current.CodeMAC, codeMACInput(current.ID, current.Email, digits)...):
		return s.completeLogin(ctx, current, now)
	case current.Attempts >= s.cfg.MaxAttempts:
		return "", ReasonTooManyAttempts.Fault()
	}
	return "", ReasonIncorrectCode.Fault()
}

// attemptLimits bound what is guessed about an address in all logins. The first code of a login is compared in any case: wrong codes of someone
// else, in logins of his own, do not lock the owner out of one whose code has come. There are as many first codes as codes are sent, which the
// limits of SendCode bound.
func (s *Service) attemptLimits(counted LoginSession) []RateLimit {
	if counted.Attempts <= 1 {
		return nil
	}
	return []RateLimit{s.rateLimit("attempts_per_email", counted.Email, s.cfg.AttemptsPerEmail, ReasonTooManyAttemptsForEmail)}
}

// completeLogin marks the session as logged in and returns its new cookie.
func (s *Service) completeLogin(ctx context.Context, session LoginSession, now time.Time) (string, error) {
	cookie, err := account.RandomBase62()
	if err != nil {
		return "", err
	}
	// The pause between two codes protects a mailbox. Who has entered a code has read it, and need not wait
	// for the next login; the limit of codes per hour still holds.
	if err := s.Store.CompleteLogin(ctx, session.ID, session.CodeMAC, hashSecret(cookie), now, now.Add(s.cfg.SessionTTL), s.addressPause(session.Email)); err != nil {
		return "", sessionExpired(err)
	}
	s.Log.LogAttrs(ctx, slog.LevelInfo, "logged in", slog.String("login", session.ID.String()), slog.String("email", MaskEmail(session.Email)))
	return cookie, nil
}

// parseCode returns the digits of a code as a user typed it: of one from an e-mail or, where there are any, a fixed one.
func (s *Service) parseCode(text string) (string, error) {
	digits := strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' || r == '\u00a0' {
			return -1
		}
		return r
	}, text)
	if isLength := len(digits) == CodeDigits || s.HasReviewCodes() && len(digits) == ReviewCodeDigits; !isLength || strings.Trim(digits, "0123456789") != "" {
		return "", ReasonMalformedCode.Fault()
	}
	return digits, nil
}
