package oauth

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"mediastack.dev/runtime/work"
)

// EmailWork is the kind of the tasks that send e-mails with login codes. Their payload is an encrypted LoginEmail, and they
// expire with the code.
const EmailWork work.Kind = "email"

// LoginEmail is an e-mail with a login code.
type LoginEmail struct {
	// To is the address that the user entered; it belongs to an owner of an account.
	To string
	// Code is the login code in plain text. It must not be logged.
	Code string
	// ExpiresAt is the expiry of the code and of the e-mail.
	ExpiresAt time.Time
}

// OpenEmail decrypts the e-mail of a task, and reports whether it is to be sent. An e-mail to an address that owns no account is
// not: only this tells it apart, so the login page behaves the same for known and unknown addresses. Nor is one that was
// encrypted with another secret.
func (s *Service) OpenEmail(ctx context.Context, encrypted []byte) (LoginEmail, bool, error) {
	var email LoginEmail
	plain, err := s.Encrypter.Decrypt(encrypted)
	if err == nil {
		err = json.Unmarshal(plain, &email)
	}
	if err != nil {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "email dropped", slog.String("reason", "encrypted with another secret"))
		return LoginEmail{}, false, nil //nolint:nilerr // it will never be readable
	}
	isOwner, err := s.Store.IsOwner(ctx, email.To)
	return email, isOwner, err
}
