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

// codeDigits is the length of the code that is mailed. It is short, since people type
// it; tries are counted in its place. Six would do against a hasty attacker. Against a
// patient one, with some tries a day for each of ten thousand owners, they give one
// account away in weeks; eight hold for years.
const codeDigits = 8

// NewCode is a code on its way to an address.
type NewCode struct {
	Address string
	MAC     []byte
	Now     time.Time
	Expires time.Time
	// Letter is encrypted: it holds the code and the address.
	Letter []byte
}

// ParseAddress returns the canonical form of an e-mail address that a person entered, by
// the rule that the owners of an account follow. Invalid when the text is no bare address.
func ParseAddress(text string) (string, error) {
	email, ok := account.ParseEmail(strings.TrimSpace(text))
	if !ok {
		return "", fault.New(fault.Invalid, "Enter an e-mail address, such as ana@example.org.")
	}
	return email, nil
}

// SendCode makes a code and has it mailed to the address, if it may log in. Whether it
// may is looked up when the mail is about to go: here, everything is the same for all
// addresses. from is the network that the person is in. Invalid for a text that is no address, Busy for what came too often.
func (s *Service) SendCode(ctx context.Context, request Request, address string, from string) error {
	address, err := ParseAddress(address)
	if err != nil {
		return err
	}
	if request.LoggedIn() {
		return fault.New(fault.Conflict, "You are logged in already.")
	}
	if request.Tries >= s.cfg.CodeTries {
		return spent()
	}
	number, err := rand.Int(rand.Reader, big.NewInt(100_000_000))
	if err != nil {
		return fmt.Errorf("draw a code: %w", err)
	}
	digits := fmt.Sprintf("%0*d", codeDigits, number)
	now := s.Now()
	code := NewCode{Address: address, MAC: s.codeMAC(request.ID, address, digits), Now: now, Expires: now.Add(s.cfg.CodeTTL)}
	plain, err := json.Marshal(LoginEmail{To: address, Code: digits, ExpiresAt: code.Expires})
	if err != nil {
		return fmt.Errorf("write a letter: %w", err)
	}
	code.Letter = s.Encrypter.Encrypt(plain)
	err = s.Store.SetCode(ctx, request.ID, request.Browser, code, []Attempt{
		s.pause(address),
		s.attempt("codes of a client", from, s.cfg.CodesOfClient, "Too many codes were asked for from your network."),
		s.attempt("codes of an address", address, s.cfg.CodesOfAddress, "Too many codes were asked for with this address."),
	})
	if err != nil {
		return gone(err)
	}
	s.Log.LogAttrs(ctx, slog.LevelInfo, "a login code was asked for", slog.String("login", request.ID.String()), slog.String("address", MaskAddress(address)))
	select {
	case s.emailQueued <- struct{}{}:
	default:
	}
	return nil
}

// pause permits one code for an address in Config.ResendAfter, whichever logins ask for
// it at whichever replicas. Someone who mistyped their address need not wait.
func (s *Service) pause(address string) Attempt {
	pause := s.attempt("pause of an address", address, 1, "A code was sent just now.")
	pause.Within = s.cfg.ResendAfter
	return pause
}

// ResendIn tells how long it takes until another code may be asked for.
func (s *Service) ResendIn(request Request) time.Duration {
	if request.CodeSentAt == nil {
		return 0
	}
	return max(0, request.CodeSentAt.Add(s.cfg.ResendAfter).Sub(s.Now()))
}

// codeMAC ties a code to the request and the address that it was made for.
func (s *Service) codeMAC(id uuid.UUID, address, digits string) []byte {
	return s.mac("code", id.String(), address, digits)
}

// TryCode logs the browser in when the code is the newest one of its request, and gives
// its new cookie: the one from before the login, which somebody may have planted, is
// worth nothing afterwards. Invalid for a wrong code and before any code was sent, NotFound
// when the tries are used up, Busy when the address was tried too often.
func (s *Service) TryCode(ctx context.Context, request Request, text string) (string, error) {
	if request.Address == "" {
		return "", fault.New(fault.Invalid, "No code has been sent yet. Enter your e-mail address first.")
	}
	digits := strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' || r == '\u00a0' {
			return -1
		}
		return r
	}, text)
	if len(digits) != codeDigits || strings.Trim(digits, "0123456789") != "" {
		return "", fault.New(fault.Invalid, "Enter the %d digits of the code.", codeDigits)
	}
	if request.LoggedIn() {
		return "", fault.New(fault.Conflict, "You are logged in already.")
	}
	current, err := s.Store.TakeTry(ctx, request.ID, request.Browser, s.cfg.CodeTries, s.Now(), func(r Request) Attempt {
		return s.attempt("tries of an address", r.Address, s.cfg.TriesOfAddress, "Too many codes were tried for this address.")
	})
	if fault.Is(err, fault.NotFound) {
		return "", spent()
	}
	if err != nil {
		return "", err
	}
	now := s.Now()
	switch {
	case current.CodeMAC == nil || current.CodeExpires == nil || !now.Before(*current.CodeExpires):
		return "", fault.New(fault.Invalid, "The code has expired. Ask for a new one.")
	case !s.Signer.Verify(join([]string{"code", current.ID.String(), current.Address, digits}), current.CodeMAC):
		if current.Tries >= s.cfg.CodeTries {
			return "", spent()
		}
		return "", fault.New(fault.Invalid, "That is not the code. Look at the newest mail and try again.")
	}
	cookie, err := newSecret("")
	if err != nil {
		return "", err
	}
	if err := s.Store.LogIn(ctx, current.ID, current.CodeMAC, hashOf(cookie), now, now.Add(s.cfg.RequestTTL)); err != nil {
		return "", gone(err)
	}
	s.Log.LogAttrs(ctx, slog.LevelInfo, "logged in", slog.String("login", request.ID.String()), slog.String("address", MaskAddress(current.Address)))
	return cookie, nil
}

func spent() error {
	return fault.New(fault.NotFound, "Too many wrong codes were entered.")
}
