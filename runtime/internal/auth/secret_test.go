package auth

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/login"
)

func TestSecretsAreReadInEveryUsualForm(t *testing.T) {
	t.Parallel()
	raw := []byte("\xfb\xff\xfe0123456789012345678901234567890")
	for _, text := range []string{
		hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)), base64.StdEncoding.EncodeToString(raw), base64.URLEncoding.EncodeToString(raw),
		base64.RawStdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw), " " + hex.EncodeToString(raw) + "\n",
	} {
		secret, err := ParseSecret(text, "")
		if err != nil || string(secret.current) != string(raw) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"", "abc", "not base64 at all, sorry, not at all!", hex.EncodeToString(raw[:31])} {
		if _, err := ParseSecret(text, ""); err == nil || !strings.Contains(err.Error(), "SERVICE_SECRET ") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ParseSecret(hex.EncodeToString(raw), "short"); err == nil || !strings.Contains(err.Error(), "SERVICE_SECRET_PREVIOUS") {
		t.Errorf("a bad previous secret: %v", err)
	}
	secret, _ := ParseSecret(hex.EncodeToString(raw), "")
	if text := fmt.Sprintf("%v %+v %#v %s", secret, secret, secret, secret); strings.Contains(text, "0123") || strings.Contains(text, "48, 49") {
		t.Errorf("a secret prints as %s", text)
	}
}

func signerOf(t testing.TB, secret string, purpose Purpose) *Signer {
	t.Helper()
	parsed, err := ParseSecret(base64.StdEncoding.EncodeToString([]byte(secret)), "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := parsed.Signer(purpose)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func TestACodeIsWorthlessForAnotherPurpose(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("s", 32)
	uploads, files := signerOf(t, secret, ForUploads), signerOf(t, secret, ForDelivery)
	message := []byte("message")
	if !uploads.Verify(message, uploads.Sign(message)) || files.Verify(message, uploads.Sign(message)) || uploads.Verify(message, nil) {
		t.Error("purposes are not kept apart")
	}
}

func FuzzOnlyWhatWasSignedIsAccepted(f *testing.F) {
	signer := signerOf(f, strings.Repeat("s", 32), ForUploads)
	other := signerOf(f, strings.Repeat("t", 32), ForUploads)
	principal := account.Principal{Account: account.Account{ID: uuid.New()}, App: account.App{ID: uuid.New()}, Key: account.Key{ID: uuid.New()}}
	f.Add(sealClaims(signer, claimsOf(Grant{Principal: principal}, time.Unix(1e9, 0), "g")), int64(1e9), "group")
	f.Add("", int64(0), "")
	f.Add("a.b", int64(1<<40), "日本")
	f.Fuzz(func(t *testing.T, text string, expires int64, group string) {
		// Whatever is accepted is exactly what its claims sign to: there is no second form.
		if claims, ok := openClaims(signer, text); ok && sealClaims(signer, claims) != text {
			t.Fatalf("%q is accepted and not in the one form", text)
		}
		if expires < 0 || expires > 1<<40 || len(group) > 255 || strings.ToValidUTF8(group, "") != group {
			return
		}
		made := claimsOf(Grant{Principal: principal}, time.Unix(expires, 0), group)
		signed := sealClaims(signer, made)
		got, ok := openClaims(signer, signed)
		if !ok || !got.expires.Equal(made.expires) || got.group != group || !got.belongTo(login.Session{Principal: principal}) {
			t.Fatalf("%+v came back as %+v, %t", made, got, ok)
		}
		if _, ok := openClaims(other, signed); ok {
			t.Fatal("another secret accepts it")
		}
		if strings.ContainsFunc(signed, func(r rune) bool { return r > 126 || r <= ' ' || strings.ContainsRune(`"\,;&=%+/`, r) }) {
			t.Fatalf("%q is not safe in a header or a URL", signed)
		}
	})
}
