package account_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
)

func proofKey(t testing.TB, fill byte) account.ProofKey {
	t.Helper()
	key, err := account.NewProofKey([]byte(strings.Repeat(string(rune(fill)), 32)))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestProof_ProvesOneKeyOfOneApp(t *testing.T) {
	t.Parallel()
	signer, id := proofKey(t, 'a'), uuid.New()
	key := account.Key{Sequence: 7, Generation: 3, Hash: account.Hash{1}}
	proof := signer.Sign(id, "blog", key)
	if sequence, generation, ok := signer.Verify(proof, id, "blog", key.Hash); !ok || sequence != 7 || generation != 3 {
		t.Fatalf("the proof %s is not accepted: %d, %d, %t", proof, sequence, generation, ok)
	}
	fields := strings.Split(proof, ".")
	for name, got := range map[string]func() (int64, int64, bool){
		"another account":      func() (int64, int64, bool) { return signer.Verify(proof, uuid.New(), "blog", key.Hash) },
		"another app":          func() (int64, int64, bool) { return signer.Verify(proof, id, "blo", key.Hash) },
		"another key":          func() (int64, int64, bool) { return signer.Verify(proof, id, "blog", account.Hash{2}) },
		"another installation": func() (int64, int64, bool) { return proofKey(t, 'b').Verify(proof, id, "blog", key.Hash) },
		"no installation": func() (int64, int64, bool) {
			return account.ProofKey{}.Verify(account.ProofKey{}.Sign(id, "blog", key), id, "blog", key.Hash)
		},
		"a higher sequence":   func() (int64, int64, bool) { return signer.Verify("v1.8.3."+fields[3], id, "blog", key.Hash) },
		"a higher generation": func() (int64, int64, bool) { return signer.Verify("v1.7.4."+fields[3], id, "blog", key.Hash) },
		"another version":     func() (int64, int64, bool) { return signer.Verify("v2.7.3."+fields[3], id, "blog", key.Hash) },
		"a shorter MAC":       func() (int64, int64, bool) { return signer.Verify(proof[:len(proof)-4], id, "blog", key.Hash) },
		"no MAC":              func() (int64, int64, bool) { return signer.Verify("v1.7.3.", id, "blog", key.Hash) },
		"a number that overflows": func() (int64, int64, bool) {
			return signer.Verify("v1.18446744073709551623.3."+fields[3], id, "blog", key.Hash)
		},
		"more fields": func() (int64, int64, bool) { return signer.Verify(proof+".x", id, "blog", key.Hash) },
		"nothing":     func() (int64, int64, bool) { return signer.Verify("", id, "blog", key.Hash) },
	} {
		if sequence, generation, ok := got(); ok || sequence != 0 || generation != 0 {
			t.Errorf("%s: the proof is accepted", name)
		}
	}
}

func TestProofKey_HidesItself(t *testing.T) {
	t.Parallel()
	key := proofKey(t, 'x')
	encoded, err := json.Marshal(map[string]any{"key": key})
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("read", "key", key, "ring", account.AccountKeys{ProofKey: key})
	for _, text := range []string{fmt.Sprint(key), fmt.Sprintf("%+v", account.AccountKeys{ProofKey: key}), fmt.Sprintf("%#v", key), string(encoded), logged.String()} {
		if strings.Contains(text, "xxx") || strings.Contains(text, "120 120") || strings.Contains(text, "0x78") {
			t.Errorf("the key is in %s", text)
		}
	}
	if _, err := account.NewProofKey([]byte("short")); err == nil {
		t.Error("a short key is accepted")
	}
}

func FuzzProof_RejectsWhatWasNotSigned(f *testing.F) {
	signer, id := proofKey(f, 'a'), uuid.New()
	key := account.Key{Sequence: 1, Generation: 1, Hash: account.Hash{1}}
	proof := signer.Sign(id, "default", key)
	f.Add(proof)
	f.Add("v1.1.1.AAAA")
	f.Add("v1.-1.+1.")
	f.Fuzz(func(t *testing.T, text string) {
		if _, _, ok := signer.Verify(text, id, "default", key.Hash); ok && text != proof {
			// The numbers may be spelled in another way, such as +1; the MAC is of their values.
			fields, want := strings.Split(text, "."), strings.Split(proof, ".")
			if fields[3] != want[3] {
				t.Errorf("%q is accepted", text)
			}
		}
	})
}
