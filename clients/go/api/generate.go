// Package api has the routes and types of the service, generated from clients/openapi.json. The package
// above it adds retries, errors, uploads and iteration.
package api

//go:generate oapi-codegen -config oapi-codegen.yaml ../../openapi.json
