package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Headers of a delivery (Standard Webhooks, "Webhook metadata").
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// Timestamp returns the value of HeaderTimestamp: seconds since 1970.
func Timestamp(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

// Signature returns the value of HeaderSignature: a signature of the version 1, HMAC-SHA-256, by each key (Standard Webhooks, "Signature scheme").
func Signature(keys [][]byte, id string, at time.Time, body []byte) string {
	signatures := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		_, _ = mac.Write([]byte(id + "." + Timestamp(at) + ".")) // hash.Hash: it never returns an error
		_, _ = mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}

const (
	// secretPrefix begins the text of a secret.
	secretPrefix = "whsec_"
	// minKey and maxKey bound a key, in bytes (Standard Webhooks, "Signature scheme").
	minKey = 24
	maxKey = 64
)

// FormatSecret returns the text of a key that signs deliveries, as receivers and their libraries take it.
func FormatSecret(key []byte) string { return secretPrefix + base64.StdEncoding.EncodeToString(key) }

// ParseSecret reads what FormatSecret returns. The error does not quote the text.
func ParseSecret(text string) (key []byte, err error) {
	encoded, found := strings.CutPrefix(strings.TrimSpace(text), secretPrefix)
	if !found {
		return nil, fmt.Errorf("the secret must begin with %s", secretPrefix)
	}
	key, err = base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || strings.ContainsAny(encoded, "\r\n") { // DecodeString skips ends of lines, which a receiver may not do
		return nil, fmt.Errorf("the secret must be %s and base64, in one line", secretPrefix)
	}
	if len(key) < minKey || len(key) > maxKey {
		return nil, fmt.Errorf("the secret must have from %d to %d bytes in base64, not %d", minKey, maxKey, len(key))
	}
	return key, nil
}
