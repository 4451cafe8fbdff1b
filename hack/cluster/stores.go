package main

import (
	"context"

	"golang.org/x/sync/errgroup"

	"mediastack.dev/hack/servers"
)

const database = "mediastack"

// startStores starts PostgreSQL, an S3 store and a mail sink, where pods reach them.
func (k *cluster) startStores(ctx context.Context, running *description) error {
	group, all := errgroup.WithContext(ctx)
	group.Go(func() error {
		postgres, err := k.group.StartPostgres(all, servers.PostgresConfig{
			Dir: k.data.path("postgres"), LogFile: k.log("postgres"), Volatile: true,
			TCP: true, Address: hostAddress, Port: postgresPort, Password: servers.RandomSecret(16),
		})
		if err != nil {
			return err
		}
		running.DatabaseURL = postgres.URL(database)
		k.progress.Printf("PostgreSQL is ready at %s", hostPort(postgresPort))
		return postgres.CreateDatabase(all, database)
	})
	group.Go(func() error {
		store, err := k.group.StartS3(all, servers.S3Config{
			Dir: k.data.path("s3"), LogFile: k.log("s3"), Address: hostAddress, Port: s3Port,
		})
		if err != nil {
			return err
		}
		running.S3 = store.Access
		k.progress.Printf("the S3 store is ready at %s", store.Access.Endpoint)
		return nil
	})
	group.Go(func() error {
		running.SMTP, running.MailLog = hostPort(smtpPort), k.log("mailsink")
		_, err := k.group.Start(all, servers.Spec{
			Name: "the mail sink", Path: k.programs.devServices, LogFile: running.MailLog,
			Args: []string{"mailsink", "--listen", running.SMTP}, Ready: servers.Accepts(running.SMTP),
		})
		return err
	})
	return group.Wait()
}
