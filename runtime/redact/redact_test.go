package redact_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"mediastack.dev/runtime/redact"
)

var (
	digits    = strings.Repeat("aB3", 14) + "x"
	mac       = strings.Repeat("x-9", 14) + "Y"
	signature = "mus_00cAQ" + strings.Repeat("Ab4", 25) + "." + mac
)

func TestText_MasksCredentials(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"there is no parameter \"msk_" + digits + "\"":                            "there is no parameter \"msk_(hidden)\"",
		"field msk_" + digits[:20] + "... is unknown":                             "field msk_(hidden)... is unknown",
		"MSK_" + strings.ToUpper(digits):                                          "MSK_(hidden)",
		"token mat_" + digits + "." + mac + " expired":                            "token mat_(hidden) expired",
		"mrt_" + digits + ",mac_" + digits:                                        "mrt_(hidden),mac_(hidden)",
		"https://app.example.org/c.json?k=msk_" + digits:                          "https://app.example.org/c.json?k=msk_(hidden)",
		"/media/get/" + signature:                                                 "/media/get/(hidden)",
		"/media/file/x?expires=1&signature=" + mac + "&a=b":                       "/media/file/x?expires=1&signature=(hidden)&a=b",
		"field msk%5F" + digits + " is unknown":                                   "field msk%(hidden) is unknown",
		"%6Dsk%255F" + digits:                                                     "%6Dsk%(hidden)",
		`id "\\u006dsk\\u005f` + digits + `"`:                                     `id "\\u006dsk\\(hidden)"`,
		"signature: " + mac + " and " + strings.Replace(signature, ".", "%2E", 1): "signature: (hidden) and (hidden)%(hidden)",
		"parsing \"4815 1623\": no":                                               "parsing \"(hidden)\": no",
		"error parsing '12345678' as UUID":                                        "error parsing '(hidden)' as UUID",
		"Get https://app.example.org/12345678: denied":                            "Get https://app.example.org/(hidden): denied",
		"/12345678/12345678?a=12345678&b=12345678":                                "/(hidden)/(hidden)?a=(hidden)&b=(hidden)",
		`strconv.ParseInt: parsing "12345678": invalid`:                           `strconv.ParseInt: parsing "(hidden)": invalid`,
	} {
		if got := redact.Text(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
		if !redact.Secret(text) {
			t.Errorf("%q holds no secret", text)
		}
	}
	if !redact.Secret("12345678") {
		t.Error("a one-time code is no secret")
	}
}

func TestText_LeavesOtherWordsAlone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "/media/01234567-5f6f-7afa-be5e-3510feddacd9/original", "media/01a1fd74-5f6f-7afa-be5e-3510feddacd9/original", "the file must be at most 10485760 bytes", "msk_(hidden)", "mcl_" + mac,
		"0af7651916cd43dd8448eb211c80319c", strings.Repeat("0123456789abcdef", 4), strings.Repeat("0123456789ABCDEF", 4), "a-bucket-of-team-a-01a1fd74-5f6f-7afa-be5e-3510feddacd9",
		"mediastack.dev/runtime/internal/server.TestUnreadBody_ResponseIsSentBeforeTheBodyArrives", "mediastack_http_requests_total", "https://media.example.org/media/file/x/original/a.jpg",
		"SERVICE_MAX_CONNECTIONS must be 0, or at least 8, not 3",
	} {
		if got := redact.Text(text); got != text || redact.Secret(text) {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestAttr_MasksEveryPartOfALogLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	key := "msk_" + digits
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: redact.Attr}))
	log.With("with", key).WithGroup("group").Error("message "+key, "text", key, "error", errors.New("cause "+key), slog.Group("inner", "a", key))
	if text := out.String(); strings.Contains(text, digits) || strings.Count(text, "msk_(hidden)") != 5 {
		t.Errorf("the line is %s", text)
	}
}

func FuzzText(f *testing.F) {
	f.Add("a", "b")
	f.Fuzz(func(t *testing.T, before, behind string) {
		if got := redact.Text(before + "msk_" + digits + behind); strings.Contains(got, digits) {
			t.Errorf("%q", got)
		}
	})
}
