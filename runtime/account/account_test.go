package account

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestTokenHasItsFormAndHidesItself(t *testing.T) {
	t.Parallel()
	token, err := NewToken()
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^msk_[0-9A-Za-z]{43}$`).MatchString(token.Reveal()) {
		t.Fatalf("an API key must be msk_ and 43 base62 characters, not %q", token.Reveal())
	}
	shown, err := json.Marshal(map[string]any{"token": token})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(token), fmt.Sprintf("%v %+v %#v %s %q", token, token, token, token, token), string(shown), token.LogValue().String()} {
		if strings.Contains(text, token.Reveal()[4:]) {
			t.Errorf("the key shows itself in %s", text)
		}
	}
	parsed, ok := ParseToken(token.Reveal())
	if !ok || !parsed.Hash().Equal(token.Hash()) {
		t.Error("a key that was parsed must hash as the key that was made")
	}
}

func TestTokensDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		token, err := NewToken()
		if err != nil {
			t.Fatal(err)
		}
		if seen[token.Reveal()] {
			t.Fatal("two keys are the same")
		}
		seen[token.Reveal()] = true
	}
}

func TestParseTokenRefusesOtherForms(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "msk_", "msk_" + strings.Repeat("a", 42), "msk_" + strings.Repeat("a", 44), "key_" + strings.Repeat("a", 43),
		"msk_" + strings.Repeat("-", 43), " msk_" + strings.Repeat("a", 43), "msk_" + strings.Repeat("a", 43) + "\n"} {
		if _, ok := ParseToken(text); ok {
			t.Errorf("%q must not pass for an API key", text)
		}
	}
}

func TestBucketNamesAreValidAndDiffer(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$`)
	a, b := uuid.New(), uuid.New()
	for _, name := range []string{"demo", "a.b", strings.Repeat("long", 30), "UPPER"} {
		one, two := BucketName("media", "team-a", name, a), BucketName("media", "team-a", name, b)
		if !form.MatchString(one) || strings.Contains(one, "--") && !strings.Contains(name, "--") {
			t.Errorf("%q is not a good bucket name", one)
		}
		if one == two {
			t.Errorf("two accounts share the bucket name %q", one)
		}
		if one != BucketName("media", "team-a", name, a) {
			t.Error("the name of an account's bucket must not change")
		}
	}
}
