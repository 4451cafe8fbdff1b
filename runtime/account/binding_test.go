package account_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// A cluster admin runs the command of a message in a shell.
func TestChoose_PrintsNoCommandWithTextOfATenant(t *testing.T) {
	t.Parallel()
	const id = "0198c0de-0000-7000-8000-000000000000"
	for name, test := range map[string]struct{ restoreFrom, namespace, name, command string }{
		"a UUID":                   {id, "team-a", "demo", `kubectl patch retainedmediaaccount ` + id + ` --type=merge -p '{"spec":{"claimRef":{"namespace":"team-a","name":"demo"}}}'`},
		"another form of a UUID":   {"urn:uuid:" + strings.ToUpper(id), "team-a", "demo", `kubectl patch retainedmediaaccount ` + id + ` --type=merge -p '{"spec":{"claimRef":{"namespace":"team-a","name":"demo"}}}'`},
		"a command":                {"x -p '{}'; touch /tmp/PWNED #", "team-a", "demo", ""},
		"a UUID with a command":    {id + "; touch /tmp/PWNED", "team-a", "demo", ""},
		"a name with a command":    {id, "team-a", "x'; touch /tmp/PWNED #", ""},
		"a namespace with a quote": {id, "a'b", "demo", ""},
		"a name with a line break": {id, "team-a", "demo\n", ""},
	} {
		_, _, err := account.Binding{RestoreFrom: test.restoreFrom}.Choose(account.Account{Namespace: test.namespace, Name: test.name}, nil)
		text := fault.From(err).Public
		if !fault.Is(err, fault.Conflict) || fault.ReasonOf(err) != fault.Retained {
			t.Errorf("%s: %v", name, err)
		}
		_, command, _ := strings.Cut(text, "with: ")
		if command != test.command || strings.Contains(text, "touch") || test.command == "" && strings.Contains(text, "kubectl") {
			t.Errorf("%s: the message is %q", name, text)
		}
		// The message about the account of an earlier namespace has two commands.
		closed := time.Now()
		former := account.Retained{Account: account.Account{ID: uuid.MustParse(id), Namespace: test.namespace, Name: test.name, NamespaceUID: "former", ClosedAt: &closed}}
		_, _, err = account.Binding{}.Choose(account.Account{Namespace: test.namespace, Name: test.name, NamespaceUID: "new"}, []account.Retained{former})
		_, command, _ = strings.Cut(fault.From(err).Public, "restores it with")
		if fault.ReasonOf(err) != fault.Retained || strings.Contains(command, "touch") || strings.Contains(command, "a'b") {
			t.Errorf("%s: the message is %v", name, err)
		}
	}
}
