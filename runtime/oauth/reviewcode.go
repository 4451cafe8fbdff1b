package oauth

import (
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math/big"
	"strconv"
	"strings"

	"mediastack.dev/runtime/account"
)

// ReviewCodeDigits is the length of a fixed login code. It is longer than that of a code in an e-mail: it does not expire.
const ReviewCodeDigits = 16

// reviewIterations are those of PBKDF2 for a new fixed code. Who reads the configuration can try codes without a limit.
const (
	reviewIterations    = 600_000
	maxReviewIterations = 10_000_000
	reviewSaltBytes     = 16
)

// reviewLogin is a fixed login code: that of the reviewers of a directory of applications, who have no access to the
// mailbox of the address. It holds for one account.
type reviewLogin struct {
	account    string // namespace/name
	email      string
	iterations int
	salt, hash []byte
}

// NewReviewCode returns a new fixed code for an account and the address of an owner, and the entry of the configuration that
// has its hash.
func NewReviewCode(namespacedName, address string) (code, entry string, err error) {
	email, err := ParseEmail(address)
	if err != nil {
		return "", "", err
	}
	number, err := rand.Int(rand.Reader, new(big.Int).Exp(big.NewInt(10), big.NewInt(ReviewCodeDigits), nil))
	if err != nil {
		return "", "", fmt.Errorf("generate a fixed code: %w", err)
	}
	code = fmt.Sprintf("%0*d", ReviewCodeDigits, number)
	login := reviewLogin{account: namespacedName, email: email, iterations: reviewIterations, salt: make([]byte, reviewSaltBytes)}
	_, _ = rand.Read(login.salt) // never fails
	login.hash = login.hashOf(code)
	entry = strings.Join([]string{login.account, login.email, strconv.Itoa(login.iterations), base64.RawURLEncoding.EncodeToString(login.salt), base64.RawURLEncoding.EncodeToString(login.hash)}, ":")
	_, err = parseReviewLogin(entry)
	return code, entry, err
}

// parseReviewLogin reads an entry. The error does not have the hash.
func parseReviewLogin(entry string) (reviewLogin, error) {
	malformed := fmt.Errorf("SERVICE_REVIEW_LOGINS must hold what `mediastack-runtime secrets review-code` prints, namespace/name:address:iterations:salt:hash")
	parts := strings.Split(strings.TrimSpace(entry), ":")
	if len(parts) != 5 {
		return reviewLogin{}, malformed
	}
	namespace, name, ok := strings.Cut(parts[0], "/")
	if !ok || namespace == "" || name == "" || strings.ContainsAny(name, "/ ") {
		return reviewLogin{}, malformed
	}
	email, err := ParseEmail(parts[1])
	if err != nil || email != parts[1] {
		return reviewLogin{}, fmt.Errorf("SERVICE_REVIEW_LOGINS: %q is no e-mail address in lower case", parts[1])
	}
	login := reviewLogin{account: parts[0], email: email}
	if login.iterations, err = strconv.Atoi(parts[2]); err != nil || login.iterations < reviewIterations || login.iterations > maxReviewIterations {
		return reviewLogin{}, fmt.Errorf("SERVICE_REVIEW_LOGINS: the iterations for %s must be from %d to %d", email, reviewIterations, maxReviewIterations)
	}
	salt, saltErr := base64.RawURLEncoding.DecodeString(parts[3])
	hash, hashErr := base64.RawURLEncoding.DecodeString(parts[4])
	if saltErr != nil || hashErr != nil || len(salt) < reviewSaltBytes || len(hash) != sha256.Size {
		return reviewLogin{}, malformed
	}
	login.salt, login.hash = salt, hash
	return login, nil
}

// parseReviewLogins reads the entries, one for each address.
func parseReviewLogins(entries []string) (map[string]reviewLogin, error) {
	logins := map[string]reviewLogin{}
	for _, entry := range entries {
		if strings.TrimSpace(entry) == "" {
			continue
		}
		login, err := parseReviewLogin(entry)
		if err != nil {
			return nil, err
		}
		if _, twice := logins[login.email]; twice {
			return nil, fmt.Errorf("SERVICE_REVIEW_LOGINS has %s twice", login.email)
		}
		logins[login.email] = login
	}
	return logins, nil
}

func (l reviewLogin) hashOf(code string) []byte {
	// The address is part of what is hashed, so that an entry is of no use for another one.
	key, err := pbkdf2.Key(sha256.New, l.account+"\x00"+l.email+"\x00"+code, l.salt, l.iterations, sha256.Size)
	if err != nil {
		return nil // only in the FIPS mode of Go, for a short key or salt, which this is not
	}
	return key
}

// HasReviewCodes reports whether any account has a fixed code, so that the page takes one.
func (s *Service) HasReviewCodes() bool { return len(s.review) > 0 }

// HasReviewCode reports whether an account has a fixed code, which its owners shall know.
func (s *Service) HasReviewCode(namespacedName string) bool {
	for _, login := range s.review {
		if login.account == namespacedName {
			return true
		}
	}
	return false
}

// isReviewCode reports whether the code is the fixed one of the address, and the address owns its account and no other: with a
// second one the code would open both. It takes as long for an address without a fixed code.
func (s *Service) isReviewCode(ctx context.Context, session LoginSession, digits string) (bool, error) {
	login, ok := s.review[session.Email]
	if !ok {
		login = reviewLogin{iterations: reviewIterations, salt: make([]byte, reviewSaltBytes), hash: make([]byte, sha256.Size)}
	}
	if hash := login.hashOf(digits); !ok || len(hash) == 0 || subtle.ConstantTimeCompare(hash, login.hash) != 1 {
		return false, nil
	}
	accounts, err := s.Store.AccountsOfOwner(ctx, session.Email, 2)
	if err != nil {
		return false, err
	}
	if len(accounts) != 1 || NamespacedName(accounts[0]) != login.account {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "fixed login code not accepted: its address must own its account, and no other", slog.String("account", login.account), slog.String("email", MaskEmail(session.Email)))
		return false, nil
	}
	s.Log.LogAttrs(ctx, slog.LevelWarn, "logged in with a fixed code", slog.String("account", login.account), slog.String("email", MaskEmail(session.Email)))
	return true, nil
}

// NamespacedName returns how configurations name an account.
func NamespacedName(of account.Account) string { return of.Namespace + "/" + of.Name }
