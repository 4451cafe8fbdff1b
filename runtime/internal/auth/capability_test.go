package auth

import (
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// FuzzCapability_IsWhatWasSigned decodes arbitrary claims that carry a valid MAC: only what encodeCapability
// can have written is accepted.
func FuzzCapability_IsWhatWasSigned(f *testing.F) {
	ours := signer(f, "a")
	valid, err := encodeCapability(upload.Capability{MaxBytes: 5, Types: []string{"image/*"}, Count: 1, Access: media.Public, Group: "g",
		Metadata: media.Metadata{"a": "b"}, Ref: "r", Seal: true})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{valid, valid + " ", valid + valid, "", "{}", "null", "[]", `{"nonce":""}`, strings.Replace(valid, "maxBytes", "MaxBytes", 1), strings.Replace(valid, "maxBytes", "later", 1),
		strings.Replace(valid, ":5", ":-5", 1), strings.Replace(valid, "image/*", "*/*", 1), strings.Replace(valid, `"nonce"`, `"id":"00","nonce"`, 1), valid[:len(valid)-1]} {
		f.Add(seed, int64(2e9))
	}
	f.Fuzz(func(t *testing.T, text string, expires int64) {
		if expires < 0 || expires > 1<<40 || len(text) > maxCapability {
			return
		}
		signed := claims{accountID: uuid.UUID{1}, keyID: uuid.UUID{3}, expires: time.Unix(expires, 0), capabilityJSON: text}
		if text == "" {
			return // it has a group, and no capability
		}
		signature := encodeSignature(0, ours, signed)
		if len(signature) > maxSignatureLen {
			t.Fatalf("%d characters", len(signature))
		}
		got, ok := decodeSignature(0, ours, signature)
		if !ok {
			return
		}
		if got.group != "" || got.capability == nil || got.capability.Validate() != nil || len(got.capability.ID) != sha256.Size || !got.capability.ExpiresAt.Equal(signed.expires) {
			t.Fatalf("%q is accepted as %+v", text, got)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &fields); err != nil {
			t.Fatalf("%q is accepted: %v", text, err)
		}
	})
}

func TestCapability_IsDecodedAsSigned(t *testing.T) {
	t.Parallel()
	want := upload.Capability{MaxBytes: 1 << 40, Types: []string{"image/*", "application/pdf"}, Count: 3, Access: media.Private, Group: "日本",
		Metadata: media.Metadata{"order": "7"}, Ref: "user 12", Seal: true}
	text, err := encodeCapability(want)
	must(t, err)
	expires := time.Unix(2e9, 0)
	got, ok := decodeCapability([]byte(text), expires)
	if !ok {
		t.Fatal("it is rejected")
	}
	again, err := encodeCapability(want)
	if err != nil || again == text {
		t.Errorf("two capabilities are the same: %v", err)
	}
	if other, ok := decodeCapability([]byte(again), expires); !ok || other.Is(got) || !got.Is(got) {
		t.Error("two capabilities count together")
	}
	want.ID, want.ExpiresAt = got.ID, expires
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Error(diff)
	}
	for what, wrong := range map[string]string{"a field of a later version": strings.Replace(text, "maxBytes", "maxPixels", 1), "more text": text + "{}",
		"a value out of bounds": strings.Replace(text, `"count":3`, `"count":-3`, 1), "no nonce": `{"count":3}`} {
		if _, ok := decodeCapability([]byte(wrong), expires); ok {
			t.Errorf("%s is accepted", what)
		}
	}
}
