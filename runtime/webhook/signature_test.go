package webhook_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/webhook"
)

// The values are those of the specification of Standard Webhooks, and of the tests of its libraries.
func TestSignature_IsThatOfTheSpecification(t *testing.T) {
	t.Parallel()
	key, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1614265330, 999)
	body := []byte(`{"test": 2432232314}`)
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if got := webhook.Signature([][]byte{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	other := bytes.Repeat([]byte{1}, 32)
	if got := strings.Fields(webhook.Signature([][]byte{other, key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body)); len(got) != 2 || got[1] != want || got[0] == want {
		t.Errorf("%q", got)
	}
}

func TestParseSecret_RejectsWithoutQuoting(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "whsec_", "whsec_c2VjcmV0", "whsec_%%%%", "whsec_" + strings.Repeat("c2Vj", 30), "WHSEC_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0",
		"whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0Yf==", "whsec_c2VjcmV0c2VjcmV0\nc2VjcmV0c2VjcmV0"} {
		if key, err := webhook.ParseSecret(text); err == nil || len(text) > 6 && strings.Contains(err.Error(), strings.TrimPrefix(text, "whsec_")) {
			t.Errorf("%q: %q, %v", text, key, err)
		}
	}
	for _, length := range []int{24, 32, 64} {
		key := bytes.Repeat([]byte{0xfe}, length)
		if got, err := webhook.ParseSecret(webhook.FormatSecret(key) + "\n"); err != nil || !bytes.Equal(got, key) {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}

// A text that is accepted is the one that FormatSecret returns, so no two texts are of one key, and libraries read it as we do.
func FuzzParseSecret(f *testing.F) {
	for _, text := range []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", " whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0YQ==\n", "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0Yf==", "whsec_c2VjcmV0c2VjcmV0\nc2VjcmV0c2VjcmV0", "whsec_"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := webhook.ParseSecret(text)
		if err == nil && (webhook.FormatSecret(key) != strings.TrimSpace(text) || len(key) < 24 || len(key) > 64) {
			t.Errorf("%q is read as %q", text, webhook.FormatSecret(key))
		}
	})
}
