package handover_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/cell"
	"mediastack.dev/runtime/handover"
	"mediastack.dev/runtime/redact"
)

// A token is in nothing that is printed, and what is stored of it leads back to nothing.
func TestToken_IsHiddenAndDerivesItsCapability(t *testing.T) {
	t.Parallel()
	token, err := handover.NewToken(cell.Number(0))
	if err != nil {
		t.Fatal(err)
	}
	revealed := token.Reveal()
	parsed, ok := handover.ParseToken(revealed)
	if !ok || parsed != token || len(token.Nonce()) != handover.NonceLength || !bytes.Equal(parsed.Capability(), token.Capability()) {
		t.Errorf("%q is parsed as %v, %t", revealed, parsed, ok)
	}
	text, err := json.Marshal(token)
	if err != nil {
		t.Fatal(err)
	}
	for _, printed := range []string{fmt.Sprint(token), fmt.Sprintf("%#v", token), fmt.Sprintf("%+v", token), string(text), token.LogValue().String(), redact.Text("GET /upload/" + revealed + "/file"), redact.Text(revealed[:30])} {
		if strings.Contains(printed, revealed[8:20]) {
			t.Errorf("%q has the token", printed)
		}
	}
	other, err := handover.NewToken(cell.Number(0))
	if err != nil || other == token || bytes.Equal(other.Capability(), token.Capability()) {
		t.Errorf("two tokens are equal, or %v", err)
	}
	for _, wrong := range []string{"", revealed + "0", revealed[:len(revealed)-1], "mus_" + revealed[4:], strings.Replace(revealed, revealed[10:11], "-", 1), " " + revealed} {
		if _, ok := handover.ParseToken(wrong); ok {
			t.Errorf("%q is a token", wrong)
		}
	}
}

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	for ttl, valid := range map[time.Duration]bool{time.Minute: true, time.Hour: true, 24 * time.Hour: true, 0: false, time.Minute - 1: false, 24*time.Hour + 1: false} {
		if err := (handover.Config{TTL: ttl}).Validate(); (err == nil) != valid || err != nil && !strings.Contains(err.Error(), "SERVICE_HANDOVER_TTL") {
			t.Errorf("%s: %v", ttl, err)
		}
	}
}
