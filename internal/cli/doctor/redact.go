package doctor

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

const redacted = "[redacted]"

// forms are what must not leave: tokens, codes to join, log in and found a fleet with,
// private keys, values that are named as secret, and what stands before the @ of an
// address. Names of people and machines are not secret.
var forms = []struct {
	is   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY[A-Z ]*-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY[A-Z ]*-----|\z)`), redacted},
	{regexp.MustCompile(`\b(?:hst_[0-9A-Z]{8,}|h[a-z][0-9]_[0-9a-z]{20,})`), redacted},
	{regexp.MustCompile(`(?i)\b((?:proxy-)?authorization["']?\s*[:=]\s*)\S.*`), "${1}" + redacted},
	{regexp.MustCompile(`(?i)\b(bearer\s+)[a-z0-9._~+/=-]{6,}`), "${1}" + redacted},
	{regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)(?:[^\s/?#]*|[^\s/:@]*:[^\s@]*)@`), "${1}" + redacted + "@"},
	// PASSWORD=…, "api_key": "…", --token … and the like. A setting that names a file
	// (password_file) is no such name, and token:NAME is how the audit log names people.
	{regexp.MustCompile(`(?i)((?:(?:password|passwd|passphrase|passcode|secret|api[_-]?key|access[_-]?key|private[_-]?key|credentials?)["']?\s*[=:]|token(?:["']?\s*=|["']\s*:|\s*:\s))\s*)("[^"]*"?|'[^']*'?|[^\s"']+)`), "${1}" + redacted},
	{regexp.MustCompile(`(?i)(--?[a-z-]*(?:password|passwd|passphrase|secret|token|api-key)\s+)("[^"]*"?|'[^']*'?|[^\s"'-][^\s"']*)`), "${1}" + redacted},
}

// userinfo is NAME:PASSWORD@HOST without a scheme. The digest of an image, after its tag,
// has that form too.
var userinfo = regexp.MustCompile(`[^\s/@:"'=]+:[^\s/@"']+@[^\s/@]+`)

// redact takes out of a text all that has the form of a secret.
func redact(s string) string {
	for _, f := range forms {
		s = f.is.ReplaceAllString(s, f.with)
	}
	return userinfo.ReplaceAllStringFunc(s, func(found string) string {
		_, host, _ := strings.Cut(found, "@")
		if strings.HasPrefix(host, "sha256:") || strings.HasPrefix(host, "sha512:") {
			return found
		}
		return redacted + "@" + host
	})
}

// encode writes a part of a bundle: bytes and texts as they are, all else as JSON. Each
// text in it is redacted before it is quoted, so that no quoting hides where a secret ends.
func encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return []byte(redact(string(v))), nil
	case string:
		return []byte(redact(v)), nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var plain any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&plain); err != nil {
		return nil, err
	}
	return json.MarshalIndent(clean(plain), "", "  ")
}

// clean redacts all texts in decoded JSON, names included.
func clean(v any) any {
	switch v := v.(type) {
	case string:
		return redact(v)
	case []any:
		for i := range v {
			v[i] = clean(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, inner := range v {
			out[redact(name)] = clean(inner)
		}
		return out
	}
	return v
}
