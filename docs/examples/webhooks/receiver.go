//go:build ignore

// Command receiver is a receiver of webhooks in Go, without modules: WEBHOOK_SECRET=whsec_... PORT=8080 go run receiver.go
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	minKey  = 24       // bytes of a secret: an empty one verifies forged messages
	maxBody = 64 << 10 // more than a delivery has
)

var handled sync.Map // a database belongs here: the same event may come again after days

func verify(key []byte, header http.Header, body []byte) bool {
	sent, err := strconv.ParseInt(header.Get("Webhook-Timestamp"), 10, 64)
	if age := time.Since(time.Unix(sent, 0)); err != nil || age.Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%d.%s", header.Get("Webhook-Id"), sent, body)
	for _, signature := range strings.Fields(header.Get("Webhook-Signature")) {
		text, found := strings.CutPrefix(signature, "v1,")
		got, err := base64.StdEncoding.DecodeString(text)
		if found && err == nil && hmac.Equal(got, mac.Sum(nil)) {
			return true
		}
	}
	return false
}

func main() {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("WEBHOOK_SECRET"), "whsec_"))
	if err != nil || len(key) < minKey {
		log.Fatal("WEBHOOK_SECRET must be whsec_ and base64")
	}
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", listener.Addr().(*net.TCPAddr).Port)
	server := http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil || !verify(key, r.Header, body) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var event struct {
			Type string
			Data struct{ ID string }
		}
		if err := json.Unmarshal(body, &event); err != nil || event.Data.ID == "" { // signed, and no event
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if _, again := handled.LoadOrStore(event.Data.ID, true); !again {
			fmt.Println(event.Type, event.Data.ID) // queue the work here, and do it after the answer
		}
		w.WriteHeader(http.StatusNoContent)
	})}
	log.Fatal(server.Serve(listener))
}
