package keys

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"

	"mediastack.dev/hack/testenv/check"
)

var must = check.NoError

func TestParseSecret_AcceptsHexadecimalAndBase64(t *testing.T) {
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
	must(t, err)
	signer, err := parsed.Signer(purpose)
	must(t, err)
	return signer
}

func TestSigner_RejectsAMACOfAnotherPurpose(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("s", 32)
	uploads, files := signerOf(t, secret, PurposeUploadSignature), signerOf(t, secret, PurposeDeliveryURL)
	message := []byte("message")
	if !uploads.Verify(message, uploads.Sign(message)) || files.Verify(message, uploads.Sign(message)) || uploads.Verify(message, nil) {
		t.Error("a MAC of one purpose is valid for another, or not for its own")
	}
}

func TestEncrypter_DecryptsWithTheCurrentAndThePreviousSecret(t *testing.T) {
	t.Parallel()
	old, current := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	encrypter := func(secret, previous string, purpose Purpose) *Encrypter {
		t.Helper()
		parsed, err := ParseSecret(secret, previous)
		must(t, err)
		encrypter, err := parsed.Encrypter(purpose)
		must(t, err)
		return encrypter
	}
	encrypted := encrypter(old, "", PurposeEmailOutbox).Encrypt([]byte("code 1234"))
	if got, err := encrypter(current, old, PurposeEmailOutbox).Decrypt(encrypted); err != nil || string(got) != "code 1234" {
		t.Errorf("during a rotation: %q, %v", got, err)
	}
	for name, other := range map[string]*Encrypter{
		"another secret": encrypter(current, "", PurposeEmailOutbox), "another purpose": encrypter(old, "", PurposeOAuth),
	} {
		if got, err := other.Decrypt(encrypted); err == nil {
			t.Errorf("%s decrypts it: %q", name, got)
		}
	}
}

func TestDecode_RejectsOtherEncodingsOfTheSameBytes(t *testing.T) {
	t.Parallel()
	raw := []byte("\xfb\xff\xfe01234")
	encoded := Encode(raw)
	if got, ok := Decode(encoded); !ok || string(got) != string(raw) {
		t.Errorf("%q became %q", encoded, got)
	}
	for _, text := range []string{encoded + "=", encoded + "\n", "\r" + encoded, encoded[:4] + "\r\n" + encoded[4:], encoded + " ", strings.ReplaceAll(encoded, "-", "+"), encoded[:len(encoded)-1] + "9"} {
		if got, ok := Decode(text); ok {
			t.Errorf("%q is accepted as %q", text, got)
		}
	}
}

// A Signer keeps the states of its MACs: concurrent callers never share one.
func TestSigner_IsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	signer := signerOf(t, strings.Repeat("s", 32), PurposeDeliveryURL)
	fresh := signer.keys[0].states.New
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			message := []byte(strings.Repeat("m", 40*n))
			state, ok := fresh().(*macState)
			if !ok {
				t.Error("the pool has something else")
				return
			}
			_, _ = state.hash.Write(message)
			want := state.hash.Sum(nil)
			for range 1000 {
				if got := signer.AppendSign([]byte("x"), message); got[0] != 'x' || !bytes.Equal(got[1:], want) || !signer.Verify(message, want) {
					t.Errorf("message %d has the MAC %x, not %x", n, got, want)
					return
				}
			}
		})
	}
	all.Wait()
}
