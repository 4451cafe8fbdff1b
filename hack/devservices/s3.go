package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

const (
	s3MaxConnections = 10_000
	s3MaxRequests    = 5_000
	// Zero would make every server-side copy fail; this is the limit of S3 itself.
	s3CopyThreshold = 5 << 30
	// Bounds the threads that wait for the file system.
	s3Concurrency = 500
	// Seconds between sweeps of the account cache; zero would sweep without a pause.
	s3IAMPrune = 3600
	s3IAMTTL   = 120
)

// s3Command serves one directory as an S3 store. It changes the working directory of the process (the
// gateway's file backend works relative to it), so it must have the process for itself. It never
// calls fsync: good for trials and tests, never for data that matters.
type s3Command struct {
	Dir       string `required:"" type:"path" help:"Folder that holds the objects and the accounts."`
	Listen    string `default:"127.0.0.1:7070" help:"Address to serve on."`
	Region    string `default:"us-east-1" help:"Region to report."`
	AccessKey string `required:"" env:"DEVSERVICES_S3_ACCESS_KEY" help:"Access key of the root user; better given by the environment."`
	CertFile  string `type:"existingfile" and:"tls" help:"PEM file of the certificate for HTTPS; HTTP without it."`
	KeyFile   string `type:"existingfile" and:"tls" help:"PEM file of its private key."`
	SecretKey string `required:"" env:"DEVSERVICES_S3_SECRET_KEY" help:"Secret key of the root user; better given by the environment."`
}

// Run serves until the context ends.
func (c *s3Command) Run(ctx context.Context) error {
	objects := filepath.Join(c.Dir, "objects")
	accounts := filepath.Join(c.Dir, "accounts")
	for _, dir := range []string{objects, accounts} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make the data directory: %w", err)
		}
	}

	if err := removeEmptyFolders(objects); err != nil {
		return err
	}
	options := posix.PosixOpts{Concurrency: s3Concurrency, CopyObjectThreshold: s3CopyThreshold}
	options.SetNewFilePerm(0o600)
	options.SetNewDirPerm(0o700)

	store, err := openStore(objects, filepath.Join(c.Dir, "attributes"), options)
	if err != nil {
		return err
	}
	defer store.Shutdown()

	err = embedgw.RunVersityGW(ctx, store, &embedgw.Config{
		RootUserAccess:    c.AccessKey,
		RootUserSecret:    c.SecretKey,
		Region:            c.Region,
		CertFile:          c.CertFile,
		KeyFile:           c.KeyFile,
		Ports:             []string{c.Listen},
		MaxConnections:    s3MaxConnections,
		MaxRequests:       s3MaxRequests,
		MultipartMaxParts: 10_000,
		IAMDir:            accounts,
		IAMCacheTTL:       s3IAMTTL,
		IAMCachePrune:     s3IAMPrune,
		KeepAlive:         true,
		Quiet:             true,
		DisableACLs:       true,
		HealthPath:        "/health",
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("serve on %s: %w", c.Listen, err)
	}
	return nil
}

// gatewayFolder is the folder of a bucket that belongs to the gateway.
const gatewayFolder = ".sgwtmp"

// removeEmptyFolders removes the folders without an object in every bucket. A gateway that was killed
// between the removal of an object and that of its folder leaves one, and then reports that the
// bucket is not empty.
func removeEmptyFolders(objects string) error {
	var folders []string
	err := filepath.WalkDir(objects, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || !entry.IsDir():
			return err
		case entry.Name() == gatewayFolder:
			return fs.SkipDir
		case path != objects && filepath.Dir(path) != objects: // inside a bucket
			folders = append(folders, path)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for empty folders: %w", err)
	}
	for _, folder := range slices.Backward(folders) { // the inner ones first
		if err := os.Remove(folder); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
			return fmt.Errorf("remove an empty folder: %w", err)
		}
	}
	return nil
}

// openStore keeps object metadata in extended attributes where the file system has them, and in
// files beside the objects where it has not.
func openStore(objects, attributes string, options posix.PosixOpts) (*posix.Posix, error) {
	var metadata meta.MetadataStorer = meta.XattrMeta{}
	if err := (meta.XattrMeta{}).Test(objects); err != nil {
		if err := os.MkdirAll(attributes, 0o700); err != nil {
			return nil, fmt.Errorf("make the metadata directory: %w", err)
		}
		sidecar, err := meta.NewSideCar(attributes)
		if err != nil {
			return nil, fmt.Errorf("keep metadata in %s: %w", attributes, err)
		}
		metadata = sidecar
		options.SideCarDir = attributes
	}
	store, err := posix.New(objects, metadata, options)
	if err != nil {
		return nil, fmt.Errorf("open the data directory: %w", err)
	}
	return store, nil
}
