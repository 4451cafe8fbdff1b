// Command minio-user creates a user of a MinIO server, or gives it another policy. Tests of the documented
// IAM policy run it. It is a module of its own, so that MinIO's client for administrators is no dependency
// of the product.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/minio/madmin-go/v3"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const usage = "usage: MINIO_ROOT_USER=... MINIO_ROOT_PASSWORD=... minio-user ENDPOINT ACCESS-KEY SECRET-KEY < policy.json"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "minio-user:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 4 {
		return errors.New(usage)
	}
	endpoint, err := url.Parse(os.Args[1])
	if err != nil {
		return err
	}
	policy, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	admin, err := madmin.NewWithOptions(endpoint.Host, &madmin.Options{
		Creds:  credentials.NewStaticV4(os.Getenv("MINIO_ROOT_USER"), os.Getenv("MINIO_ROOT_PASSWORD"), ""),
		Secure: endpoint.Scheme == "https",
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	user := os.Args[2]
	if err := admin.AddUser(ctx, user, os.Args[3]); err != nil {
		return fmt.Errorf("add the user: %w", err)
	}
	if err := admin.AddCannedPolicy(ctx, user, policy); err != nil {
		return fmt.Errorf("add the policy: %w", err)
	}
	_, err = admin.AttachPolicy(ctx, madmin.PolicyAssociationReq{Policies: []string{user}, User: user})
	if response := madmin.ToErrorResponse(err); response.Code == "XMinioAdminPolicyChangeAlreadyApplied" {
		return nil // the user has the policy, whose content has just changed
	}
	return err
}
