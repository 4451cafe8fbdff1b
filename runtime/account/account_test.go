package account

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/cell"
)

var must = check.NoError

func TestKeySecret_HasItsFormAndIsNeverPrinted(t *testing.T) {
	t.Parallel()
	token, err := NewKeySecret(cell.Max)
	must(t, err)
	if !regexp.MustCompile(`^msk_fff[0-9A-Za-z]{43}$`).MatchString(token.Reveal()) {
		t.Fatalf("an API key must be msk_, the cell and 43 base62 characters, not %q", token.Reveal())
	}
	shown, err := json.Marshal(map[string]any{"token": token})
	must(t, err)
	for _, text := range []string{fmt.Sprint(token), fmt.Sprintf("%v %+v %#v %s %q", token, token, token, token, token), string(shown), token.LogValue().String()} {
		if strings.Contains(text, token.Reveal()[4:]) {
			t.Errorf("the key is printed: %s", text)
		}
	}
	parsed, ok := ParseKeySecret(token.Reveal())
	if !ok || !parsed.Hash().Equal(token.Hash()) {
		t.Error("a parsed key must have the hash of the key that was created")
	}
}

func TestNewKeySecret_ReturnsDifferentKeys(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		token, err := NewKeySecret(0)
		must(t, err)
		if seen[token.Reveal()] {
			t.Fatal("two keys are the same")
		}
		seen[token.Reveal()] = true
	}
}

func TestParseKeySecret_RejectsOtherForms(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("a", 43)
	for _, text := range []string{"", "msk_", "msk_" + digits, "msk_000" + digits[1:], "msk_000a" + digits, "key_000" + digits, "msk_00g" + digits, "msk_00A" + digits,
		"msk_000" + strings.Repeat("-", 43), " msk_000" + digits, "msk_000" + digits + "\n"} {
		if _, ok := ParseKeySecret(text); ok {
			t.Errorf("%q is accepted as an API key", text)
		}
	}
}

func TestBucketName_IsValidAndUnique(t *testing.T) {
	t.Parallel()
	pattern := regexp.MustCompile(`^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$`)
	a, b := uuid.New(), uuid.New()
	for _, name := range []string{"demo", "a.b", strings.Repeat("long", 30), "UPPER"} {
		one, two := BucketName("media", "team-a", name, a), BucketName("media", "team-a", name, b)
		if !pattern.MatchString(one) || strings.Contains(one, "--") && !strings.Contains(name, "--") {
			t.Errorf("%q is not a valid bucket name", one)
		}
		if one == two {
			t.Errorf("two accounts share the bucket name %q", one)
		}
		if one != BucketName("media", "team-a", name, a) {
			t.Error("the name of an account's bucket must not change")
		}
	}
}
