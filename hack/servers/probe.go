package servers

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
)

// Answers is a readiness probe that succeeds when a URL answers 200.
func Answers(url string) func(context.Context) error { return AnswersTo(http.DefaultClient, url) }

// AnswersTo is Answers with a client of its own.
func AnswersTo(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answered %s", url, response.Status)
		}
		return nil
	}
}

// Accepts is a probe that succeeds when an address can be connected to.
func Accepts(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}
