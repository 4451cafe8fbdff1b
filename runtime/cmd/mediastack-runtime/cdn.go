package main

import (
	"cmp"
	"errors"
	"time"

	"mediastack.dev/runtime/cdn"
	"mediastack.dev/runtime/internal/cdnclient"
	"mediastack.dev/runtime/internal/delivery"
)

// buildCDN creates the purges of the CDN, if there is one. Once the service is drained, other replicas send them.
func (b *builder) buildCDN() error {
	if err := b.CDN.Validate(); err != nil || !b.CDN.Enabled() {
		return err
	}
	if b.Delivery.Mode == delivery.Redirect {
		return usageError{errors.New("SERVICE_CDN_PURGE needs SERVICE_DELIVERY_MODE=stream: a redirect is not kept by a CDN, and S3 sends no tags")}
	}
	purger, err := cdnclient.New(b.CDN, cdnclient.Deps{})
	if err != nil {
		return err
	}
	b.cdn, err = cdn.New(cdn.Deps{Store: b.store.CDN, Purger: purger, Ready: func() error { return cmp.Or(b.drained.Err(), b.guard.Writable()) }, Now: time.Now, Log: b.log, Registry: b.registry})
	return err
}

// cdnOfFiles returns what files say to the CDN; nil if there is none.
func (b *builder) cdnOfFiles() *delivery.CDN {
	if b.cdn == nil {
		return nil
	}
	header, separator := b.CDN.TagHeader()
	return &delivery.CDN{Header: header, Separator: separator, Tags: b.cdn.Tags}
}
