package auth

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
)

func signer(t testing.TB, char string) *keys.Signer {
	t.Helper()
	secret, err := keys.ParseSecret(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(char), 32)), "")
	must(t, err)
	made, err := secret.Signer(keys.PurposeUploadSignature)
	must(t, err)
	return made
}

// FuzzSignature_ChangedIsRejected rejects every text but the signature itself.
func FuzzSignature_ChangedIsRejected(f *testing.F) {
	ours := signer(f, "a")
	signed := claims{accountID: uuid.UUID{1}, appID: uuid.UUID{2}, keyID: uuid.UUID{3}, expires: time.Unix(2e9, 0), group: "friends"}
	good := encodeSignature(0, ours, signed)
	text, mac, _ := strings.Cut(good, ".")
	for _, seed := range []string{good, "", ".", text, "." + mac, text + ".", mac + "." + text, good + "=", good + ".", strings.ToUpper(good), good[:len(good)-1] + "B", "A" + good, good[:9] + "\r" + good[9:], good + "\n", "mus_001" + good[7:], good[7:], encodeSignature(0, signer(f, "b"), signed)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, signature string) {
		got, ok := decodeSignature(0, ours, signature)
		if ok != (signature == good) {
			t.Fatalf("%q is accepted: %t", signature, ok)
		}
		if ok && got != signed {
			t.Fatalf("its claims are %+v", got)
		}
	})
}

// FuzzClaims_AreDecodedAsEncoded decodes the claims of every signature.
func FuzzClaims_AreDecodedAsEncoded(f *testing.F) {
	ours, foreign := signer(f, "a"), signer(f, "b")
	f.Add([]byte("account"), []byte("app"), []byte("key"), int64(2e9), "friends", uint16(3))
	f.Add([]byte{}, []byte{}, []byte{}, int64(0), "", uint16(0))
	f.Add([]byte("an account and a login of it"), []byte("app"), []byte("key"), int64(2e9), strings.Repeat("g", 128), uint16(70))
	f.Add([]byte{}, []byte{}, []byte{}, int64(1<<40), strings.Repeat("ü", 127), uint16(100))
	f.Fuzz(func(t *testing.T, account, app, key []byte, expires int64, group string, flip uint16) {
		var signed claims
		if len(account) > len(signed.accountID) {
			copy(signed.grantID[:], account[len(signed.accountID):]) // by a login
		}
		copy(signed.accountID[:], account)
		copy(signed.appID[:], app)
		copy(signed.keyID[:], key)
		if signed.group = group; media.CheckGroup(group) != nil || expires < 0 || expires > 1<<40 {
			return // Sign is never called with these
		}
		signed.expires = time.Unix(expires, 0)
		signature := encodeSignature(0, ours, signed)
		if got, ok := decodeSignature(0, ours, signature); !ok || got != signed {
			t.Fatalf("%+v is decoded as %+v, %t", signed, got, ok)
		}
		if len(signature) > maxSignatureLen {
			t.Fatalf("%d characters", len(signature))
		}
		if _, ok := decodeSignature(0, foreign, signature); ok {
			t.Fatal("another secret accepts it")
		}
		if _, ok := decodeSignature(1, ours, signature); ok {
			t.Fatal("another cell with the same secret accepts it")
		}
		changed := []byte(signature)
		at := int(flip) % len(changed)
		if changed[at] ^= 1; changed[at] != signature[at] {
			if _, ok := decodeSignature(0, ours, string(changed)); ok {
				t.Fatalf("changed at %d it is accepted", at)
			}
		}
	})
}

func TestAcceptsSignature_OnUploadRoutesOnly(t *testing.T) {
	t.Parallel()
	for route, want := range map[string]bool{
		"/media/create": true, "/media/create/resumable": true, "/media/create/resumable/": true, "/media/create/resumable/{id}": true, "/media/create/resumable/*": true,
		"/media/uploads": true, "/media/uploads/{uploadId}": true, "/media/uploads/": false,
		"/media/create/": false, "/media/created": false, "/media/create/resumables": false, "/media/create/*": false, "/media/get": false, "/media/signature/create": false, "": false,
	} {
		if AcceptsSignature(route) != want {
			t.Errorf("%q takes a signature: %t", route, !want)
		}
	}
}

func FuzzSignature_HasOneForm(f *testing.F) {
	ours := signer(f, "s")
	other := signer(f, "t")
	principal := account.Principal{Account: account.Account{ID: uuid.New()}, App: account.App{ID: uuid.New()}, Key: account.Key{ID: uuid.New()}}
	f.Add(encodeSignature(0, ours, claimsOf(Identity{Principal: principal}, time.Unix(1e9, 0), "g")), int64(1e9), "group")
	f.Add("", int64(0), "")
	f.Add("a.b", int64(1<<40), "日本")
	f.Fuzz(func(t *testing.T, text string, expires int64, group string) {
		// Equal claims have one signature only.
		if claims, ok := decodeSignature(0, ours, text); ok && encodeSignature(0, ours, claims) != text {
			t.Fatalf("%q is accepted, and differs from the signature of its claims", text)
		}
		if expires < 0 || expires > 1<<40 || len(group) > 255 || strings.ToValidUTF8(group, "") != group {
			return
		}
		created := claimsOf(Identity{Principal: principal}, time.Unix(expires, 0), group)
		signed := encodeSignature(0, ours, created)
		got, ok := decodeSignature(0, ours, signed)
		if !ok || !got.expires.Equal(created.expires) || got.group != group || !got.matches(oauth.Session{Principal: principal}) {
			t.Fatalf("%+v is decoded as %+v, %t", created, got, ok)
		}
		if _, ok := decodeSignature(0, other, signed); ok {
			t.Fatal("another secret accepts it")
		}
		if _, ok := decodeSignature(1, ours, signed); ok {
			t.Fatal("another cell with the same secret accepts it")
		}
		if strings.ContainsFunc(signed, func(r rune) bool { return r > 126 || r <= ' ' || strings.ContainsRune(`"\,;&=%+/`, r) }) {
			t.Fatalf("%q is not safe in a header or a URL", signed)
		}
	})
}
