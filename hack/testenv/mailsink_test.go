package testenv_test

import (
	"bytes"
	"net/smtp"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
)

func TestMailSink_PrintsMessages(t *testing.T) {
	t.Parallel()
	log := filepath.Join(testenv.TempDir(t), "mailsink.log")
	_, address, err := testenv.Group(t).StartMailSink(t.Context(), 0, log)
	must(t, err)
	message := []byte("Subject: Your code\r\n\r\n123456\r\n")
	must(t, smtp.SendMail(address, nil, "service@example.org", []string{"ana@example.org"}, message))
	// The sink prints before it acknowledges, so the log is complete by now.
	got, err := os.ReadFile(log)
	must(t, err)
	for _, want := range []string{"mail from service@example.org to ana@example.org at " + time.Now().Format("2006-"), "Subject: Your code", "123456"} {
		if !bytes.Contains(got, []byte(want)) {
			t.Errorf("the log lacks %q:\n%s", want, got)
		}
	}
}
