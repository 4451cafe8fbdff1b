package objectstore_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/objectstore"
)

// issuer issues web identity tokens, as a Kubernetes cluster does for service accounts.
type issuer struct {
	url string
	key *rsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	i := &issuer{key: key}
	mux := http.NewServeMux()
	respond := func(path string, document func() map[string]any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(document()) })
	}
	respond("/.well-known/openid-configuration", func() map[string]any {
		return map[string]any{"issuer": i.url, "jwks_uri": i.url + "/jwks", "authorization_endpoint": i.url + "/authorize", "response_types_supported": []string{"id_token"}}
	})
	respond("/jwks", func() map[string]any {
		public := map[string]any{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1",
			"n": base64.RawURLEncoding.EncodeToString(key.N.Bytes()), "e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes())}
		return map[string]any{"keys": []any{public}}
	})
	server := httptest.NewUnstartedServer(mux)
	i.url = "http://" + server.Listener.Addr().String()
	server.Start()
	t.Cleanup(server.Close)
	return i
}

// token returns a signed token with a policy of MinIO.
func (i *issuer) token(t *testing.T, policy string) []byte {
	t.Helper()
	part := func(value map[string]any) string {
		text, err := json.Marshal(value)
		must(t, err)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := part(map[string]any{"alg": "RS256", "kid": "1", "typ": "JWT"}) + "." + part(map[string]any{
		"iss": i.url, "sub": "system:serviceaccount:mediastack-system:mediastack-runtime", "aud": "media", "policy": policy, "exp": time.Now().Add(time.Hour).Unix()})
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, digest[:])
	must(t, err)
	return []byte(signed + "." + base64.RawURLEncoding.EncodeToString(signature))
}

// MinIO issues temporary keys for a web identity token, with the protocol of AWS STS, and accepts
// them with their session token only.
func TestStore_UsesTemporaryKeysForAWebIdentity(t *testing.T) {
	issuer, dir := newIssuer(t), testenv.TempDir(t)
	minio, err := testenv.Group(t).StartMinIO(t.Context(), testenv.S3Config{Dir: filepath.Join(dir, "minio"), LogFile: filepath.Join(dir, "minio.log"), Env: []string{
		"MINIO_IDENTITY_OPENID_CONFIG_URL=" + issuer.url + "/.well-known/openid-configuration", "MINIO_IDENTITY_OPENID_CLIENT_ID=media", "MINIO_IDENTITY_OPENID_CLAIM_NAME=policy"}})
	must(t, err)
	token := filepath.Join(dir, "token")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", token)
	cfg := objectstore.Config{Endpoint: minio.Access.Endpoint, Region: minio.Access.Region, Credentials: objectstore.IAMCredentials, IAMEndpoint: minio.Access.Endpoint}

	must(t, os.WriteFile(token, []byte("forged"), 0o600))
	rejected, err := objectstore.New(cfg)
	must(t, err)
	if err := rejected.Ping(t.Context()); !fault.Is(err, fault.Unavailable) || fault.ReasonOf(err) != fault.Credentials {
		t.Errorf("a forged token: %v", err)
	}

	must(t, os.WriteFile(token, issuer.token(t, "readwrite"), 0o600))
	store, err := objectstore.New(cfg)
	must(t, err)
	// MinIO loads its policies after it reports that it is healthy.
	wait.UntilNone(t, func() string {
		if err := store.Ping(t.Context()); err != nil {
			return fmt.Sprintf("the token is not accepted: %v", err)
		}
		return ""
	})
	bucket, _ := claimed(t, store)
	put(t, store, bucket, "media/x/original", "image/png", []byte("bytes"))
	if got := read(t, store, bucket, "media/x/original", 0, -1); string(got) != "bytes" {
		t.Errorf("read %q", got)
	}
	presigner, err := objectstore.NewPresigner(cfg, "")
	must(t, err)
	url, err := presigner.Presign(t.Context(), http.MethodGet, bucket, "media/x/original", time.Minute, nil)
	must(t, err)
	response, err := http.Get(url)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		t.Errorf("a presigned URL answers %s", response.Status)
	}
}
