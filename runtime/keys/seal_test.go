package keys_test

import (
	"bytes"
	"strings"
	"testing"

	"mediastack.dev/runtime/keys"
)

func opener(t *testing.T, current, previous string, purpose keys.Purpose) *keys.Opener {
	t.Helper()
	secret, err := keys.ParseSecret(current, previous)
	if err != nil {
		t.Fatal(err)
	}
	opener, err := secret.Opener(purpose)
	if err != nil {
		t.Fatal(err)
	}
	return opener
}

func TestSeal_IsOpenedByItsPurposeAndSecretOnly(t *testing.T) {
	t.Parallel()
	first, second := strings.Repeat("11", 32), strings.Repeat("22", 32)
	before := opener(t, first, "", keys.PurposeWebhooks)
	plain := []byte("https://example.org/hook")
	sealed, err := before.PublicKey().Seal(keys.PurposeWebhooks, plain)
	if err != nil || bytes.Contains(sealed, plain) {
		t.Fatal(err)
	}
	rotated := opener(t, second, first, keys.PurposeWebhooks)
	for name, o := range map[string]*keys.Opener{"the same secret": opener(t, first, "", keys.PurposeWebhooks), "the secret after it": rotated} {
		if got, err := o.Open(sealed); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	changed := bytes.Clone(sealed)
	changed[len(changed)-1] ^= 1
	for name, try := range map[string]func() ([]byte, error){
		"another secret":  func() ([]byte, error) { return opener(t, second, "", keys.PurposeWebhooks).Open(sealed) },
		"another purpose": func() ([]byte, error) { return opener(t, first, "", keys.PurposeOAuth).Open(sealed) },
		"changed data":    func() ([]byte, error) { return before.Open(changed) },
		"no data":         func() ([]byte, error) { return before.Open(nil) },
	} {
		if got, err := try(); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	if before.PublicKey().ID == rotated.PublicKey().ID || before.PublicKey().ID != opener(t, first, second, keys.PurposeWebhooks).PublicKey().ID {
		t.Error("the id must be that of the current secret's key")
	}
	if _, err := (keys.PublicKey{Bytes: []byte("short")}).Seal(keys.PurposeWebhooks, plain); err == nil {
		t.Error("an invalid key seals")
	}
}
