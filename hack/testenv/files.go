package testenv

import (
	"net/http"
	"testing"

	"mediastack.dev/hack/servers"
)

// Files starts a server of files that a runtime with its settings may download.
func Files(t testing.TB, files http.Handler) *servers.Files {
	t.Helper()
	server, err := servers.StartFiles(t.TempDir(), files)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

// MailSink starts an SMTP server that prints mails into a file, and returns the settings of a runtime that sends its mails to it.
func MailSink(t testing.TB, logFile string) (settings []string) {
	t.Helper()
	_, address, err := Group(t).StartMailSink(t.Context(), 0, logFile)
	if err != nil {
		t.Fatal(err)
	}
	return servers.MailSettings(address)
}
