// Package api is the contract of the REST interface: the OpenAPI document, and the routes and types
// generated from it.
package api

//go:generate oapi-codegen -config oapi-codegen.yaml openapi.yaml
