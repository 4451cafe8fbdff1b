package testenv

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/setup"
)

// MinIOUser is a user of the MinIO server of the test process, with a policy of its own.
type MinIOUser struct {
	// Access is the user's, Root that of the server's administrator.
	Access, Root S3Access

	t testing.TB
}

// NewMinIOUser creates a user with an IAM policy.
func NewMinIOUser(t testing.TB, policy string) *MinIOUser {
	t.Helper()
	root := storeAccess(t, "minio")
	user := &MinIOUser{Access: root, Root: root, t: t}
	user.Access.AccessKey, user.Access.SecretKey = servers.RandomSecret(10), servers.RandomSecret(20)
	user.SetPolicy(policy)
	return user
}

// SetPolicy replaces the policy. It has an effect at once.
func (u *MinIOUser) SetPolicy(policy string) {
	u.t.Helper()
	program, err := setup.FindMinIOUser()
	if err != nil {
		u.t.Fatalf("the test needs minio-user: %v", err)
	}
	ctx, cancel := context.WithTimeout(u.t.Context(), StartTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, program, u.Root.Endpoint, u.Access.AccessKey, u.Access.SecretKey)
	command.Env = []string{"MINIO_ROOT_USER=" + u.Root.AccessKey, "MINIO_ROOT_PASSWORD=" + u.Root.SecretKey}
	command.Stdin = strings.NewReader(policy)
	if out, err := command.CombinedOutput(); err != nil {
		u.t.Fatalf("set the policy: %v: %s", err, out)
	}
}
