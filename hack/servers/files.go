package servers

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
)

// Files is an HTTPS server on loopback with files that a runtime may download, by POST /api/v1/media/fetch or upload_media_from_url.
type Files struct {
	*httptest.Server
	// Settings are the environment of a runtime that trusts the server and may connect to it.
	Settings []string
}

// StartFiles starts a server of files. It writes its certificate into dir. The caller closes the server.
func StartFiles(dir string, files http.Handler) (*Files, error) {
	server := httptest.NewUnstartedServer(files)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	authority := filepath.Join(dir, "authority.pem")
	err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600)
	var address *url.URL
	if err == nil {
		address, err = url.Parse(server.URL)
	}
	if err != nil {
		server.Close()
		return nil, err
	}
	return &Files{Server: server, Settings: []string{"SERVICE_FETCH_ENABLED=true", "SERVICE_FETCH_ALLOW_NETWORKS=127.0.0.1/32",
		"SERVICE_FETCH_PORTS=" + address.Port(), "SERVICE_FETCH_CHECK_INTERVAL=100ms", "SSL_CERT_FILE=" + authority}}, nil
}
