// Package api is the contract of the runtime's interfaces: the OpenAPI document, the routes and types
// generated from it, and the documents of items and settings that REST, TUS and MCP share.
package api

//go:generate oapi-codegen -config oapi-codegen.yaml openapi.yaml
