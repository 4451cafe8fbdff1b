package account

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// CheckOrigin returns why a web origin, or a pattern of origins, can never be that of a page, or may not be listed; nil if
// it may be. It is the one rule for spec.cors.origins, whose schema knows neither the registries of domains nor what
// browsers send, and for SERVICE_CORS_ORIGINS. A list with such an origin is not in force. Package origin has IPv6
// addresses and texts without a scheme checked by package cors; the schema permits neither.
func CheckOrigin(origin string) error {
	scheme, rest, ok := strings.Cut(origin, "://")
	if !ok || strings.HasPrefix(rest, "[") {
		return nil
	}
	host, port, hasPort := strings.Cut(rest, ":")
	name, wildcard := strings.CutPrefix(host, "*.")
	if err := checkHost(origin, name, wildcard); err != nil || !hasPort || port == "*" {
		return err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || number == 0:
		return fmt.Errorf("%s has no valid port: ports are 1 to 65535, or * for all", origin)
	case scheme == "https" && number == 443, scheme == "http" && number == 80:
		return fmt.Errorf("%s is what no browser sends, because it leaves the port %d of %s out: write %s", origin, number, scheme, strings.TrimSuffix(origin, ":"+port))
	}
	return nil
}

// checkHost checks the host of an origin, without the wildcard that it may have had.
func checkHost(origin, name string, wildcard bool) error {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || name == "" {
		return fmt.Errorf("%s is no origin: write one such as https://app.example.org, in lower case and without a path", origin)
	}
	if suffix, registry := publicsuffix.PublicSuffix(name); wildcard && registry && suffix == name {
		// Nobody owns all of those pages. Domains whose owner lets others use subdomains, such as github.io, are not
		// meant, and neither are names of private networks.
		example := strings.Replace(origin, "*."+suffix, "*.example."+suffix, 1)
		return fmt.Errorf("%s is every site below %s: name a domain of yours, such as %s", origin, suffix, example)
	}
	labels := strings.Split(name, ".")
	// No top-level domain begins with a digit, so browsers read such a host as an IPv4 address.
	if last := labels[len(labels)-1]; last != "" && last[0] >= '0' && last[0] <= '9' {
		address, err := netip.ParseAddr(name)
		switch {
		case wildcard:
			return fmt.Errorf("%s has the wildcard before an IP address, which has no subdomains: name each address", origin)
		case err != nil || address.String() != name:
			return fmt.Errorf("%s has no valid host: one that ends in a number must be an IPv4 address, such as 192.0.2.1", origin)
		}
		return nil
	}
	if _, err := hostNames.ToASCII(name); err != nil {
		return fmt.Errorf("%s has no valid domain name: each part has at most 63 characters, and one that begins with xn-- must be the ASCII form of an international name", origin)
	}
	return nil
}

// hostNames accepts the names that hosts in an origin can have.
var hostNames = idna.New(idna.BidiRule(), idna.ValidateLabels(true), idna.StrictDomainName(true), idna.VerifyDNSLength(true))

// checkOrigins returns the error of the first origin that has one.
func checkOrigins(origins []string) error {
	for _, origin := range origins {
		if err := CheckOrigin(origin); err != nil {
			return fmt.Errorf("spec.cors.origins: %w", err)
		}
	}
	return nil
}
