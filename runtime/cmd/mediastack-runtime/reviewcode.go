package main

import (
	"errors"
	"fmt"
	"strings"

	"mediastack.dev/runtime/oauth"
)

// reviewCodeCommand makes a fixed login code. It reaches no server.
type reviewCodeCommand struct {
	Account string `required:"" help:"The account that the code opens: namespace/name."`
	Email   string `required:"" help:"The address that reviewers enter: an owner of the account, and of no other."`
}

// Validate checks the name of the account; kong calls it.
func (c *reviewCodeCommand) Validate() error {
	namespace, name, ok := strings.Cut(c.Account, "/")
	if !ok || !kubernetesName.MatchString(namespace) || !kubernetesName.MatchString(name) {
		return errors.New("--account must be the namespace and name of a MediaAccount, such as team-a/demo")
	}
	return nil
}

// Run prints the code, which is stored nowhere, and its entry.
func (c *reviewCodeCommand) Run(io stdio) error {
	code, entry, err := oauth.NewReviewCode(c.Account, c.Email)
	if err != nil {
		return usageError{fmt.Errorf("--email: %w", err)}
	}
	_, err = fmt.Fprintf(io.out, "code: %s %s %s %s\nSERVICE_REVIEW_LOGINS=%s\n", code[:4], code[4:8], code[8:12], code[12:], entry)
	return err
}
