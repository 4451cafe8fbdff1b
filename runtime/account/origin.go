package account

import (
	"math"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
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

// maxLabel is the length of the longest label of a domain.
const maxLabel = 63

// checkOrigins rejects what the schema of MediaAccount cannot, because it knows neither the registries of domains nor what a
// browser sends. The runtime ignores such an origin.
func checkOrigins(origins []string) error {
	for _, origin := range origins {
		advice := UnusableOrigin(origin)
		if suffix, whole := WholeSuffix(origin); whole {
			advice = "is every site below " + suffix + ": name a domain of yours, such as " + strings.Replace(origin, "*."+suffix, "*.example."+suffix, 1)
		}
		if advice != "" {
			return fault.New(fault.Invalid, "spec.cors.origins: %s %s. The origins of before stay in force", origin, advice)
		}
	}
	return nil
}

// UnusableOrigin returns why an origin that has the form of the schema is the origin of no page; empty = it may be one. Package
// origin of the runtime ignores exactly these.
func UnusableOrigin(origin string) string {
	scheme, host, _ := strings.Cut(origin, "://")
	host, port, _ := strings.Cut(host, ":")
	if number, err := strconv.Atoi(port); err == nil {
		switch {
		case number > math.MaxUint16:
			return "has a port over 65535"
		case scheme == "https" && number == 443, scheme == "http" && number == 80:
			return "has the default port, which browsers leave out: write " + strings.TrimSuffix(origin, ":"+port)
		}
	}
	domain, wildcard := strings.CutPrefix(host, "*.")
	labels := strings.Split(domain, ".")
	if last := labels[len(labels)-1]; last != "" && last[0] >= '0' && last[0] <= '9' { // as a browser decides
		if ip, err := netip.ParseAddr(host); wildcard || err != nil || ip.String() != host {
			return "is neither a domain nor an IP address"
		}
		return ""
	}
	for _, label := range labels {
		if len(label) > maxLabel {
			return "has a part of more than 63 characters"
		}
	}
	if _, err := domains.ToASCII(domain); err != nil {
		return "has no valid international domain: write it as browsers do, such as xn--bcher-kva.example"
	}
	return ""
}

// domains decides which names are domains, by the rules of package origin.
var domains = idna.New(idna.BidiRule(), idna.ValidateLabels(true), idna.StrictDomainName(true), idna.VerifyDNSLength(true))
