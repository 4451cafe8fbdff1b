package rest

//go:generate oapi-codegen -config oapi-codegen.yaml openapi.yaml
