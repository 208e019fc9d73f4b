package record

import (
	"os"
	"regexp"
	"slices"
	"strings"
)

// hidden stands where a secret was.
const hidden = "[redacted]"

// secretWord matches the names under which secrets are kept, as the last part
// of a flag, key or variable ("tokens" and "tokenizer" are no secrets here).
const secretWord = `(?:token|secret|password|passwd|passphrase|api[-_]?key|access[-_]?key|secret[-_]?key|private[-_]?key|credentials?|signature)`

var (
	// user:password@ in an address of any scheme.
	userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/\s"'<>]+@`)
	// ?access_token=…, &X-Amz-Signature=…
	query = regexp.MustCompile(`(?i)([?&;][a-z0-9_.-]*(?:` + secretWord + `|auth|sig|key)=)[^&\s#"'<>]+`)
	// Authorization: Bearer …, Proxy-Authorization=Basic …
	header = regexp.MustCompile(`(?i)(authorization["']?\s*[:=]\s*["']?)((?:bearer|basic|token|digest)\s+)?[^\s"',;]+`)
	bearer = regexp.MustCompile(`(?i)\b(bearer\s+)[a-z0-9._~+/=-]{6,}`)
	cookie = regexp.MustCompile(`(?i)\b((?:set-)?cookie:\s*)[^\r\n"']+`)
	// --token X, --api-key=X, -hf-token X
	flagValue = regexp.MustCompile(`(?i)((?:^|[\s"'])--?(?:[a-z0-9]+[-_])*` + secretWord + `(?:\s+|=)["']?)([^\s"'-][^\s"']*)`)
	// HF_TOKEN=X, "api_key": "X", X-Api-Key: X
	assign = regexp.MustCompile(`(?i)\b((?:[a-z0-9]+[-_])*` + secretWord + `["']?\s*[:=]\s*["']?)([^\s"',;&}]+)`)
	// Tokens that show what they are by their beginning.
	known = regexp.MustCompile(`\b(hf_|sk-|gh[pousr]_|github_pat_|glpat-|npm_|pypi-Ag|xox[abprs]-|AKIA|eyJ)[A-Za-z0-9_.-]{8,}`)
)

// redactPatterns hides what looks like a secret wherever it comes from.
func redactPatterns(s string) string {
	if s == "" {
		return s
	}
	s = userinfo.ReplaceAllString(s, "${1}"+hidden+"@")
	s = query.ReplaceAllString(s, "${1}"+hidden)
	s = header.ReplaceAllString(s, "${1}${2}"+hidden)
	s = bearer.ReplaceAllString(s, "${1}"+hidden)
	s = cookie.ReplaceAllString(s, "${1}"+hidden)
	s = flagValue.ReplaceAllString(s, "${1}"+hidden)
	s = assign.ReplaceAllString(s, "${1}"+hidden)
	return known.ReplaceAllStringFunc(s, func(m string) string {
		// Words such as hf_datasets or sk-learn-models are no secrets.
		if len(m) < 24 && !strings.ContainsAny(m, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			return m
		}
		return hidden
	})
}

// redactor hides secrets and the home folder in texts.
type redactor struct {
	home    string
	secrets []string // values of variables whose names look like secrets, longest first
}

// newRedactor takes the secrets out of an environment ("NAME=value").
func newRedactor(environ []string, home string) *redactor {
	r := &redactor{home: strings.TrimRight(home, `/\`)}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		// A short value would be found everywhere.
		if secretName(name) && len(value) >= 8 {
			r.secrets = append(r.secrets, value)
		}
	}
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
	return r
}

// secretName reports whether a variable of this name holds a secret.
func secretName(name string) bool {
	for _, part := range strings.Split(strings.ToUpper(name), "_") {
		switch part {
		case "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "PAT", "APIKEY", "CREDENTIAL", "CREDENTIALS":
			return true
		}
	}
	return strings.HasSuffix(strings.ToUpper(name), "_KEY")
}

func (r *redactor) redact(s string) string {
	if s == "" {
		return s
	}
	for _, secret := range r.secrets {
		s = strings.ReplaceAll(s, secret, hidden)
	}
	return r.shorten(redactPatterns(s))
}

// shorten writes ~ for the home folder where it stands as a whole path or the
// beginning of one.
func (r *redactor) shorten(s string) string {
	if len(r.home) < 2 {
		return s
	}
	var b strings.Builder
	for {
		i := strings.Index(s, r.home)
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		end := i + len(r.home)
		inside := i > 0 && pathByte(s[i-1]) || end < len(s) && s[end] != '/' && s[end] != '\\' && pathByte(s[end])
		b.WriteString(s[:i])
		if inside {
			b.WriteString(r.home)
		} else {
			b.WriteByte('~')
		}
		s = s[end:]
	}
}

// pathByte reports whether c next to a path makes it part of a longer one.
func pathByte(c byte) bool {
	return c == '/' || c == '\\' || c == '.' || c == '-' || c == '_' || c >= 0x80 ||
		'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// Redact returns s without what must not be stored or shown: passwords and
// tokens in addresses, headers, flags and assignments, tokens known by their
// form, and the values of this process's environment variables whose names
// say that they are secret. The home folder becomes ~.
func Redact(s string) string { return processRedactor().redact(s) }

// RedactArgs does the same for a command line, where a flag and its value
// stand apart.
func RedactArgs(args []string) []string {
	r := processRedactor()
	out := make([]string, len(args))
	for i, a := range args {
		if i > 0 && flagName.MatchString(args[i-1]) && !strings.HasPrefix(a, "--") {
			out[i] = hidden
			continue
		}
		out[i] = r.redact(a)
	}
	return out
}

var flagName = regexp.MustCompile(`(?i)^--?(?:[a-z0-9]+[-_])*` + secretWord + `$`)

func processRedactor() *redactor {
	home, _ := os.UserHomeDir() // without one there is nothing to shorten
	return newRedactor(os.Environ(), home)
}
