package cdnclient_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/cdnclient"
)

// config returns a valid config.
func config(purger string, change ...func(*cdnclient.Config)) cdnclient.Config {
	cfg := cdnclient.Config{Purger: purger, URLs: []string{"https://edge.example.org/purge"}, Key: keyOf(purger), Timeout: 10 * time.Second}
	if purger == "" {
		cfg.URLs, cfg.Key = nil, ""
	}
	for _, apply := range change {
		apply(&cfg)
	}
	return cfg
}

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	urls := func(urls ...string) func(*cdnclient.Config) {
		return func(c *cdnclient.Config) { c.URLs = urls }
	}
	key := func(key string) func(*cdnclient.Config) { return func(c *cdnclient.Config) { c.Key = key } }
	header := func(header string) func(*cdnclient.Config) {
		return func(c *cdnclient.Config) { c.Header = header }
	}
	type one struct {
		purgers string
		change  func(*cdnclient.Config)
		want    string // empty = it is valid
	}
	all := strings.Join(purgers, " ")
	cases := []one{
		{" " + all, func(*cdnclient.Config) {}, ""},
		{"none Varnish", func(*cdnclient.Config) {}, "SERVICE_CDN_PURGE must be surrogate, cloudflare, fastly or webhook"},
		{"", urls("https://a.example"), "SERVICE_CDN_PURGE_URL is set, but SERVICE_CDN_PURGE is not"},
		{"", key("k"), ""},
		{"", header("X-Tags"), "SERVICE_CDN_TAG_HEADER is set, but SERVICE_CDN_PURGE is not"},
		{all, urls(), "SERVICE_CDN_PURGE_URL must be set"},
		{"surrogate", urls("http://10.0.0.1:6081", "http://[fd00::1]:6081/", "https://varnish.edge.svc"), ""},
		{"surrogate", urls("http://a.example", "http://a.example"), "URL 2 of SERVICE_CDN_PURGE_URL is there twice"},
		{"surrogate", urls("http://a.example", "a.example"), "URL 2 of SERVICE_CDN_PURGE_URL must begin with"},
		{"cloudflare fastly webhook", urls("https://a.example", "https://b.example"), "must be one URL, not 2"},
		{"cloudflare fastly", urls("http://a.example"), "must begin with https://, since the key"},
		{"cloudflare fastly", urls("http://127.0.0.1:1"), ""},
		{"webhook surrogate", urls("http://a.example"), ""},
		{all, urls("https://user:" + token + "@a.example/"), "must not have a user name or password"},
		{all, urls("https://a.example/#" + token), "must not have a fragment"},
		{all, urls("https://"), "must have a host"},
		{all, urls("https:///" + token), "must have a host"},
		{all, urls("https:a.example"), "must have a host"},
		{all, urls("https://a.example:0/"), "a port from 1 to 65535"},
		{all, urls("https://a.example:99999/"), "a port from 1 to 65535"},
		{all, urls("https://a.example:" + token + "/"), "is malformed"},
		{all, urls("https://a.example/" + token + " b"), "without white space"},
		{all, urls("https://ü.example/" + token), "in ASCII"},
		{all, urls(`https://a.example\` + token), "in ASCII"},
		{all, urls("https://a.example/" + strings.Repeat("a", 2048)), "at most 2048 bytes"},
		{all, urls(""), "must begin with"},
		{"surrogate", key(""), ""},
		{"cloudflare fastly webhook", key(""), "SERVICE_CDN_PURGE_KEY must be set when SERVICE_CDN_PURGE is "},
		{all, key(token + "\n"), "without white space or an end of line"},
		{all, key(token + "\r\nX-Header: a"), "without white space or an end of line"},
		{all, key(token + "ü"), "in ASCII"},
		{all, key(strings.Repeat("a", 4097)), "at most 4096 bytes"},
		{"webhook", key(token), "SERVICE_CDN_PURGE_KEY: the secret must begin with whsec_"},
		{"webhook", key("whsec_c2hvcnQ="), "SERVICE_CDN_PURGE_KEY: the secret must have from 24 to 64 bytes"},
		{all, func(c *cdnclient.Config) { c.Timeout = 2 * time.Minute }, "SERVICE_CDN_PURGE_TIMEOUT must be from 1s to 1m"},
		{all, func(c *cdnclient.Config) { c.Timeout = 0 }, "SERVICE_CDN_PURGE_TIMEOUT must be from 1s to 1m"},
		{all, header("x-tags_2"), ""},
		{all, header("a b"), "SERVICE_CDN_TAG_HEADER must be the name of a header"},
		{all, header("ü"), "SERVICE_CDN_TAG_HEADER must be the name of a header"},
		{all, header("a:"), "SERVICE_CDN_TAG_HEADER must be the name of a header"},
		{all, header(strings.Repeat("a", 65)), "SERVICE_CDN_TAG_HEADER must be the name of a header"},
	}
	for _, name := range []string{"cache-control", "CDN-Cache-Control", "ETag", "content-type", "Vary", "set-cookie", "Access-Control-Allow-Origin", "RateLimit", "X-Request-ID"} {
		cases = append(cases, one{all, header(name), "which has another meaning"})
	}
	var many []string
	for i := range 33 {
		many = append(many, fmt.Sprintf("http://edge-%d.example", i))
	}
	cases = append(cases, one{"surrogate", urls(many[:32]...), ""}, one{"surrogate", urls(many...), "at most 32 URLs"})
	for i, c := range cases {
		for purger := range strings.SplitSeq(c.purgers, " ") {
			err := config(purger, c.change).Validate()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("case %d, %q: %v, want %q", i, purger, err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), token) {
				t.Errorf("case %d, %q: the error tells the key or the URL: %v", i, purger, err)
			}
			if c, made := cdnclient.New(config(purger, c.change), cdnclient.Deps{}); err != nil && (made == nil || c != nil) {
				t.Errorf("case %d, %q: there is a client", i, purger)
			}
		}
	}
}

func TestConfig_EnabledIsAPurger(t *testing.T) {
	t.Parallel()
	if config("").Enabled() {
		t.Error("without a purger it is enabled")
	}
	if _, err := cdnclient.New(config(""), cdnclient.Deps{}); err == nil {
		t.Error("there is a client without a purger")
	}
	for _, purger := range purgers {
		if !config(purger).Enabled() {
			t.Errorf("%s is not enabled", purger)
		}
	}
}

func TestConfig_TagHeader(t *testing.T) {
	t.Parallel()
	for _, one := range [][]string{
		{"surrogate", "", "Surrogate-Key", " "}, {"fastly", "", "Surrogate-Key", " "}, {"cloudflare", "", "Cache-Tag", ","}, {"webhook", "", "Cache-Tag", ","}, {"", "", "Cache-Tag", ","},
		{"surrogate", "cache-tag", "Cache-Tag", ","}, {"cloudflare", "SURROGATE-KEY", "Surrogate-Key", " "}, {"webhook", "xkey", "Xkey", " "},
	} {
		name, separator := config(one[0], func(c *cdnclient.Config) { c.Header = one[1] }).TagHeader()
		if !slices.Equal([]string{name, separator}, one[2:]) {
			t.Errorf("%v: %q %q", one, name, separator)
		}
	}
}
