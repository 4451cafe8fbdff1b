// Command mediastack-devservices holds the helpers of the dev stack and of the tests that are not part
// of the product: an S3 store and a mail sink. It is a module and a program of its own, so that
// what they depend on can never link into a shipped binary.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

var cli struct {
	S3       s3Command       `cmd:"" name:"s3" help:"Serve S3 from a directory."`
	Mailsink mailsinkCommand `cmd:"" name:"mailsink" help:"Accept mail and print it."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	command := kong.Parse(&cli,
		kong.Name("mediastack-devservices"),
		kong.Description("Helpers of the mediastack dev stack. Not for production."),
		kong.UsageOnError(),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	if err := command.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "mediastack-devservices %s: %v\n", command.Command(), err)
		os.Exit(1)
	}
}
