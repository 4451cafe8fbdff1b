package account

import (
	"strings"

	"golang.org/x/net/publicsuffix"

	"mediastack.dev/runtime/fault"
)

// WholeSuffix reports whether an origin has the subdomains of a domain under which anyone registers names, such as
// com or co.uk: nobody owns all of those pages. Domains whose owner lets others use subdomains, such as github.io, are
// not meant, and neither are names of private networks.
func WholeSuffix(origin string) (suffix string, whole bool) {
	_, host, _ := strings.Cut(origin, "://")
	host, wildcard := strings.CutPrefix(host, "*.")
	if host, _, _ = strings.Cut(host, ":"); !wildcard {
		return "", false
	}
	suffix, registry := publicsuffix.PublicSuffix(host)
	return suffix, registry && suffix == host
}

// checkOrigins rejects what the schema of MediaAccount cannot, because it does not know the registries of domains. The
// runtime ignores such an origin.
func checkOrigins(origins []string) error {
	for _, origin := range origins {
		if suffix, whole := WholeSuffix(origin); whole {
			example := strings.Replace(origin, "*."+suffix, "*.example."+suffix, 1)
			return fault.New(fault.Invalid, "spec.cors.origins: %s is every site below %s: name a domain of yours, such as %s. The origins of before stay in force", origin, suffix, example)
		}
	}
	return nil
}
