package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/minio/minio-go/v7/pkg/signer"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/test/chaos/faults"
)

const database = "zeroloss"

// stores are PostgreSQL and an S3 store that the test may restart and disconnect, which it may not do
// with those of the cluster. The product reaches both through a proxy with a fixed address.
type stores struct {
	dir, address   string
	group          *servers.Group
	primary        *servers.Postgres
	replica        *servers.Postgres
	s3             *servers.S3
	toDB, toS3     *faults.Proxy
	role, password string
	key, secretKey string // of S3
}

func startStores(ctx context.Context, dir, address string) (*stores, error) {
	s := &stores{dir: dir, address: address, group: servers.NewGroup(), role: servers.Role, password: servers.RandomSecret(16)}
	var err error
	if s.primary, err = s.group.StartPostgres(ctx, s.postgres("primary")); err != nil {
		return s, err
	}
	if err := s.primary.CreateDatabase(ctx, database); err != nil {
		return s, err
	}
	if s.s3, err = s.group.StartS3(ctx, servers.S3Config{Dir: filepath.Join(dir, "s3"), LogFile: filepath.Join(dir, "s3.log"), Address: address}); err != nil {
		return s, err
	}
	if err := s.addKey(ctx); err != nil {
		return s, err
	}
	anyPort := net.JoinHostPort(address, "0")
	if s.toDB, err = faults.StartProxyAt(anyPort, s.at(s.primary.Port)); err != nil {
		return s, err
	}
	s.toS3, err = faults.StartProxyAt(anyPort, s.at(s.s3.Port))
	return s, err
}

func (s *stores) at(port int) string { return net.JoinHostPort(s.address, strconv.Itoa(port)) }

func (s *stores) postgres(name string) servers.PostgresConfig {
	return servers.PostgresConfig{
		Dir: filepath.Join(s.dir, name), LogFile: filepath.Join(s.dir, name+".log"),
		TCP: true, Address: s.address, Password: s.password, Volatile: true,
	}
}

// databaseURL is the product's way to the database.
func (s *stores) databaseURL() string {
	address := url.URL{Scheme: "postgres", User: url.UserPassword(s.role, s.password), Host: s.toDB.String(), Path: "/" + database, RawQuery: "sslmode=disable"}
	return address.String()
}

// addRole makes a second role with the rights of the first one: its credentials overlap with the former ones.
func (s *stores) addRole(ctx context.Context, role, password string) error {
	return s.execute(ctx,
		fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s' IN ROLE %s", role, password, servers.Role),
		// What it creates belongs to the first role, as everything else does.
		fmt.Sprintf("ALTER ROLE %s SET role = %s", role, servers.Role))
}

// addKey makes another user of the S3 store, whose key the product uses from then on.
func (s *stores) addKey(ctx context.Context) error {
	s.key, s.secretKey = servers.RandomSecret(10), servers.RandomSecret(20)
	return s.administer(ctx, "/create-user", fmt.Sprintf("<Account><Access>%s</Access><Secret>%s</Secret><Role>admin</Role></Account>", s.key, s.secretKey))
}

func (s *stores) removeKey(ctx context.Context, key string) error {
	return s.administer(ctx, "/delete-user?access="+key, "")
}

// administer sends a request of the administration of the S3 store, as its root user.
func (s *stores) administer(ctx context.Context, path, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, s.s3.Access.Endpoint+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(body))
	request.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(digest[:]))
	request = signer.SignV4(*request, s.s3.Access.AccessKey, s.s3.Access.SecretKey, "", s.s3.Access.Region)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("%s was answered %s: %s", path, response.Status, content)
	}
	return err
}

// execute runs statements as the superuser.
func (s *stores) execute(ctx context.Context, statements ...string) error {
	conn, err := pgx.Connect(ctx, s.primary.AdminURL(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// failOver kills the primary, promotes its replica, and leads the address to it.
func (s *stores) failOver(ctx context.Context) error {
	s.primary.Kill()
	if err := s.replica.Promote(ctx); err != nil {
		return err
	}
	s.primary, s.replica = s.replica, nil
	s.toDB.Redirect(s.at(s.primary.Port))
	return nil
}

func (s *stores) close() {
	for _, proxy := range []*faults.Proxy{s.toDB, s.toS3} {
		if proxy != nil {
			proxy.Close()
		}
	}
	s.group.Close()
}
