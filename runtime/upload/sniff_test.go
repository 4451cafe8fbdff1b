package upload

import (
	"bytes"
	"encoding/binary"
	"mime"
	"testing"
	"unicode/utf16"
)

// inUTF16 encodes text, with a byte order mark.
func inUTF16(text string, order binary.AppendByteOrder) string {
	encoded := order.AppendUint16(nil, 0xfeff)
	for _, unit := range utf16.Encode([]rune(text)) {
		encoded = order.AppendUint16(encoded, unit)
	}
	return string(encoded)
}

func ftyp(brand string) string {
	return "\x00\x00\x00\x18ftyp" + brand + "\x00\x00\x00\x00" + brand + "mif1"
}

func TestSniff_PrefersTheBytesOverTheDeclaredType(t *testing.T) {
	t.Parallel()
	const png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
	const svg = `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`
	const page = "<html><script>alert(1)</script></html>"
	for name, c := range map[string]struct{ head, claim, want string }{
		"a PNG that claims to be a JPEG":             {png, "image/jpeg", "image/png"},
		"a PNG that claims to be HTML":               {png, "text/html", "image/png"},
		"a PNG without a claim":                      {png, "", "image/png"},
		"HTML that claims to be a picture":           {"<!DOCTYPE html><html><script>", "image/png", "text/html"},
		"unknown bytes that claim to be HTML":        {"\x00\x01\x02\x03", "text/html", "application/octet-stream"},
		"unknown bytes that claim to be a PNG":       {"\x00\x01\x02\x03", "image/png", "application/octet-stream"},
		"unknown bytes that claim to be SVG":         {"\x00\x01\x02\x03", "image/svg+xml; charset=utf-8", "application/octet-stream"},
		"unknown bytes that claim to be a script":    {"\x00\x01\x02\x03", "application/x-javascript", "application/octet-stream"},
		"unknown bytes that claim to be XHTML":       {"\x00\x01\x02\x03", "application/xhtml+xml", "application/octet-stream"},
		"unknown bytes with a claim of theirs":       {"\x00\x01\x02\x03", "application/x-thing", "application/x-thing"},
		"unknown bytes, a claim with parameters":     {"\x00\x01\x02\x03", `Application/X-Thing; name="a.bin"`, "application/x-thing"},
		"unknown bytes, a claim of bad parameters":   {"\x00\x01\x02\x03", "application/x-thing; a; b", "application/octet-stream"},
		"unknown bytes, a very long claim":           {"\x00\x01\x02\x03", "application/x-" + string(bytes.Repeat([]byte("a"), 200)), "application/octet-stream"},
		"unknown bytes that claim to be anything":    {"\x00\x01\x02\x03", "*/*", "application/octet-stream"},
		"unknown bytes that claim to be any video":   {"\x00\x01\x02\x03", "video/*", "application/octet-stream"},
		"text that claims to be any text":            {"hello", "text/*", "text/plain"},
		"text that claims to be Markdown":            {"# hello", "text/markdown; charset=utf-8", "text/markdown"},
		"text that claims to be a script":            {"alert(1)", "text/javascript", "text/plain"},
		"text that claims to be an old script":       {"alert(1)", "text/jscript", "text/plain"},
		"text that claims to be a stylesheet of XML": {"hello", "text/xsl", "text/plain"},
		"text that claims to be HTML":                {"hello", "text/html", "text/plain"},
		"text in UTF-16":                             {inUTF16("hello", binary.LittleEndian), "", "text/plain"},
		"text in Latin-1":                            {"M\xfcller", "", "text/plain"},
		"text about tags":                            {"<3 this, and a < b", "", "text/plain"},
		"text with markup further on":                {"hello " + page, "", "text/plain"},
		"an empty file":                              {"", "", "application/octet-stream"},
		"an empty file that claims to be a PNG":      {"", "image/png", "application/octet-stream"},
		"an empty file that claims to be text":       {"", "text/plain", "text/plain"},
		"an empty file that claims to be a page":     {"", "text/html", "application/octet-stream"},
		"an empty file with a claim of its own":      {"", "application/x-thing", "application/x-thing"},
		"a claim that is no type":                    {"hello", ";;;", "text/plain"},
		"HTML":                                       {page, "", "text/html"},
		"HTML in capitals":                           {"<HTML>", "", "text/html"},
		"HTML behind white space":                    {" \t\r\n\f " + page, "text/plain", "text/html"},
		"HTML behind a mark":                         {"\xef\xbb\xbf" + page, "text/plain", "text/html"},
		"HTML behind a mark and white space":         {"\xef\xbb\xbf \n" + page, "text/plain", "text/html"},
		"HTML behind comments":                       {"<!-- a --> <!-- b -->" + page, "text/plain", "text/html"},
		"HTML in UTF-16":                             {inUTF16(page, binary.LittleEndian), "text/plain", "text/html"},
		"HTML in the other UTF-16":                   {inUTF16("\n"+page, binary.BigEndian), "text/plain", "text/html"},
		"HTML in UTF-16 without a mark":              {inUTF16(page, binary.LittleEndian)[2:], "image/png", "text/html"},
		"a picture that fails":                       {"<img src=x onerror=alert(1)>", "text/plain", "text/html"},
		"a frame":                                    {"<iframe src=x>", "text/plain", "text/html"},
		"XHTML":                                      {`<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml">`, "text/plain", "application/xhtml+xml"},
		"XHTML with a prefix":                        {`<?xml version="1.0"?><x:html xmlns:x="http://www.w3.org/1999/xhtml">`, "image/png", "text/html"},
		"SVG":                                        {svg, "image/png", "image/svg+xml"},
		"SVG behind a mark":                          {"\xef\xbb\xbf" + svg, "image/png", "image/svg+xml"},
		"SVG behind white space":                     {"\n\n  " + svg, "text/plain", "image/svg+xml"},
		"SVG behind a comment":                       {"<!-- x -->" + svg, "text/plain", "image/svg+xml"},
		"SVG behind a declaration":                   {`<?xml version="1.0"?>` + "\n" + svg, "text/plain", "image/svg+xml"},
		"SVG behind a stylesheet":                    {`<?xml version="1.0"?><?xml-stylesheet href="x"?>` + svg, "text/plain", "image/svg+xml"},
		"SVG behind a document type":                 {`<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "x">` + svg, "text/plain", "image/svg+xml"},
		"SVG with a prefix":                          {`<x:svg xmlns:x="http://www.w3.org/2000/svg">`, "text/plain", "image/svg+xml"},
		"SVG in UTF-16":                              {inUTF16(`<?xml version="1.0" encoding="utf-16"?>`+svg, binary.LittleEndian), "text/plain", "image/svg+xml"},
		"SVG in the other UTF-16":                    {inUTF16(svg, binary.BigEndian), "text/plain", "image/svg+xml"},
		"XML":                                        {`<?xml version="1.0"?><a/>`, "text/plain", "text/xml"},
		"XML in UTF-16":                              {inUTF16(`<?xml version="1.0" encoding="utf-16"?><a/>`, binary.BigEndian), "text/plain", "text/xml"},
		"a document type that ends the head":         {`<!DOCTYPE note`, "text/plain", "text/xml"},
		"a comment that never ends":                  {`<!-- hello`, "text/plain", "text/html"},
		"a PDF":                                      {"%PDF-1.7\n", "image/png", "application/pdf"},
		"a PDF behind other bytes":                   {"junk\n%PDF-1.4", "text/plain", "application/pdf"},
		"a ZIP":                                      {"PK\x03\x04", "image/png", "application/zip"},
		"a Java archive":                             {"PK\x03\x04\x14\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x14\x00\x00\x00META-INF/MANIFEST.MF", "image/png", "application/java-archive"},
		"MP4":                                        {ftyp("isom"), "image/png", "video/mp4"},
		"MP4 of another brand":                       {ftyp("mp42"), "", "video/mp4"},
		"QuickTime":                                  {ftyp("qt  "), "video/mp4", "video/quicktime"},
		"HEIC":                                       {ftyp("heic"), "image/jpeg", "image/heic"},
		"HEIF":                                       {ftyp("mif1"), "image/jpeg", "image/heif"},
		"AVIF":                                       {ftyp("avif"), "image/jpeg", "image/avif"},
		"WebP":                                       {"RIFF\x24\x00\x00\x00WEBPVP8 ", "image/jpeg", "image/webp"},
		"JSON":                                       {`{"a": [1, 2]}`, "text/html", "application/json"},
		"JSON that is none":                          {`{"a":`, "application/json", "text/plain"},
		"an executable":                              {"MZ\x90\x00", "image/png", "application/vnd.microsoft.portable-executable"},
		"a GIF that is a script too":                 {"GIF89a/*\x00\x00*/=1;alert(1)", "text/javascript", "image/gif"},
		"a GIF that is a page too":                   {"GIF89a" + page, "text/html", "image/gif"},
		"a JPEG that is a page too":                  {"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + page, "text/html", "image/jpeg"},
		"a PNG that is an archive too":               {png + "PK\x03\x04", "application/zip", "image/png"},
		"text that begins like a bitmap":             {"BM hello, text", "image/bmp", "text/plain"},
		"a page that begins like a bitmap":           {"BM" + page, "image/bmp", "text/plain"},
		"sound without a known signature":            {"\x00\x01\x02\x03", "audio/mpeg", "audio/mpeg"},
		"a document of mail":                         {"MIME-Version: 1.0\nContent-Type: multipart/related\n", "multipart/related", "text/plain"},
	} {
		if got := sniff([]byte(c.head), c.claim); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func FuzzSniff_DeclaredTypeNeverMakesContentActive(f *testing.F) {
	f.Add([]byte("hello"), "text/html")
	f.Add([]byte("\x00\x01"), "IMAGE/SVG+XML; x=y")
	f.Add([]byte("\xef\xbb\xbf <!-- --><svg>"), "text/javascript")
	f.Add([]byte("\xff\xfe<\x00?\x00x\x00m\x00l\x00"), "application/xml")
	f.Fuzz(func(t *testing.T, head []byte, claim string) {
		got := sniff(head, claim)
		if kind, params, err := mime.ParseMediaType(got); err != nil || kind != got || len(params) > 0 || len(got) > 127 {
			t.Fatalf("%q is no type", got)
		}
		if unclaimed := sniff(head, ""); isActiveContent(got) && got != unclaimed {
			t.Fatalf("the claim %q makes %s of what is %s", claim, got, unclaimed)
		}
	})
}
