// Package secret cuts secrets out of texts before they are stored or shown.
//
// What is hidden: passwords and tokens in addresses, headers, flags and
// assignments; tokens of well-known form; and, by a Redactor, the values of
// environment variables whose names say that they are secret. The package
// guesses from names and forms: a secret without either, which no variable
// holds, is not found.
package secret

import (
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Mask stands where a secret was.
const Mask = "[redacted]"

// word matches the names under which secrets are kept, as the last part of a
// flag, key or variable ("tokens" and "tokenizer" are no secrets here).
const word = `(?:token|secret|password|passwd|passphrase|api[-_]?key|access[-_]?key|secret[-_]?key|private[-_]?key|credentials?|signature)`

var (
	// user:password@ in an address of any scheme.
	userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/\s"'<>]+@`)
	// ?access_token=…, &X-Amz-Signature=…
	query = regexp.MustCompile(`(?i)([?&;][a-z0-9_.-]*(?:` + word + `|auth|sig|key)=)[^&\s#"'<>]+`)
	// Authorization: Bearer …, Proxy-Authorization=Basic …
	header = regexp.MustCompile(`(?i)(authorization["']?\s*[:=]\s*["']?)(?P<head>(?:bearer|basic|token|digest)\s+)?[^\s"',;]+`)
	bearer = regexp.MustCompile(`(?i)\b(bearer\s+)[a-z0-9._~+/=-]{6,}`)
	cookie = regexp.MustCompile(`(?i)\b((?:set-)?cookie:\s*)[^\r\n"']+`)
	// Basic dXNlcjpwYXNz, but not "Basic Arithmetic".
	basic   = regexp.MustCompile(`(?i)\bbasic\s+[a-z0-9+/=_-]{8,}`)
	encoded = regexp.MustCompile(`[0-9+/=]|[a-z][A-Z]`)
	// --token X, --api-key=X, -hf-token X
	flagValue = regexp.MustCompile(`(?i)((?:^|[\s"'])--?(?:[a-z0-9]+[-_])*` + word + `(?:\s+|=)["']?)([^\s"'-][^\s"']*)`)
	flagName  = regexp.MustCompile(`(?i)^--?(?:[a-z0-9]+[-_])*` + word + `$`)
	// What messages say of the thing named, after a colon or a space:
	// "/etc/passwd: not a file", "invalid token: is empty", "--token is missing".
	spoken = regexp.MustCompile(`\s(?:an?|the|is|isn't|was|are|it|its|this|that|there|and|or|of|for|in|no|not|none|nothing|does|doesn't|do|has|have|must|may|can|cannot|can't|could|should|` +
		`if|when|where|which|permission|operation|invalid|missing|empty|unknown|unexpected|expected|required|bad|wrong|too|file|device|input/output|read-only|stale|denied|open|stat|lstat|read)$`)
	// HF_TOKEN=X, "api_key": "X", X-Api-Key: X, _authToken=X, _auth=X
	assign = regexp.MustCompile(`(?i)((?:\b[\w.-]*` + word + `|\b_auth)["']?\s*[:=]\s*["']?)([^\s"',;&}]+)`)
	// Tokens that show what they are by their beginning.
	known = regexp.MustCompile(`\b(hf_|sk-|gh[pousr]_|github_pat_|glpat-|npm_|pypi-Ag|xox[abprs]-|AKIA|eyJ)[A-Za-z0-9_.-]{8,}`)
)

// Redact returns text without what looks like a secret. It depends on nothing
// but the text, and redacting twice changes nothing more.
func Redact(text string) string {
	if text == "" {
		return text
	}
	text = userinfo.ReplaceAllString(text, "${1}"+Mask+"@")
	text = query.ReplaceAllString(text, "${1}"+Mask)
	text = mask(header, text)
	text = bearer.ReplaceAllString(text, "${1}"+Mask)
	text = basic.ReplaceAllStringFunc(text, func(m string) string {
		if scheme, value := m[:len("basic")], m[len("basic"):]; encoded.MatchString(value) {
			return scheme + " " + Mask
		}
		return m // "Basic Arithmetic"
	})
	text = cookie.ReplaceAllString(text, "${1}"+Mask)
	text = mask(flagValue, text)
	text = mask(assign, text)
	return known.ReplaceAllStringFunc(text, func(m string) string {
		if len(m) < 24 && !strings.ContainsAny(m, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			return m // hf_datasets, sk-learn-models
		}
		return Mask
	})
}

// mask puts the Mask behind the first group of each match, and behind the one named head. A word that a
// message goes on with, after white space and without quotation marks, is no
// secret: it stays.
func mask(form *regexp.Regexp, text string) string {
	var b strings.Builder
	end := 0
	for _, m := range form.FindAllStringSubmatchIndex(text, -1) {
		if spoken.MatchString(text[m[0]:m[1]]) {
			continue
		}
		b.WriteString(text[end:m[0]])
		b.Write(form.ExpandString(nil, "${1}${head}"+Mask, text, m))
		end = m[1]
	}
	return b.String() + text[end:]
}

// Redactor hides known secrets besides those that Redact finds by their form,
// and the home folder. A nil Redactor does what Redact does.
type Redactor struct {
	home   string
	values []string // literal secrets, longest first
}

// NewRedactor takes the secrets out of an environment ("NAME=value"): the
// values of variables that are named like secrets, and the passwords of the
// addresses in any variable. Values shorter than six bytes are left alone:
// hiding them would garble ordinary text. The folder home is written as ~; ""
// leaves paths as they are.
func NewRedactor(environ []string, home string) *Redactor {
	r := &Redactor{home: strings.TrimRight(home, `/\`)}
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		if holdsSecret(name, value) {
			r.add(value)
		}
		for _, field := range strings.Fields(value) {
			u, err := url.Parse(field)
			if err != nil || u.User == nil {
				continue
			}
			if password, ok := u.User.Password(); ok {
				r.add(password)
			} else {
				r.add(u.User.Username())
			}
		}
	}
	slices.SortFunc(r.values, func(a, b string) int { return len(b) - len(a) })
	return r
}

// Process returns the Redactor of this process's environment and home folder.
func Process() *Redactor {
	home, _ := os.UserHomeDir() // without one there is nothing to shorten
	return NewRedactor(os.Environ(), home)
}

var (
	secretName = regexp.MustCompile(`(?i)(token|secret|passw|passphrase|credential|cookie|private|(^|_)pass(_|$)|(^|_)pat(_|$)|(^|_)auth(_|$|orization|token)|(^|_|api|access)key(_|$))`)
	placeName  = regexp.MustCompile(`(?i)_(path|file|dir|home|sock|url)$`)
	countName  = regexp.MustCompile(`(?i)tokens$`)
	number     = regexp.MustCompile(`^[0-9]+$`)
)

// holdsSecret reports whether the variable holds a secret, and not the place
// of one (SSH_AUTH_SOCK) or a number of tokens (MAX_TOKENS).
func holdsSecret(name, value string) bool {
	switch {
	case !secretName.MatchString(name), placeName.MatchString(name), countName.MatchString(name) && number.MatchString(value):
		return false
	case strings.HasSuffix(strings.ToUpper(name), "CREDENTIALS") && strings.HasPrefix(value, "/"):
		return false // GOOGLE_APPLICATION_CREDENTIALS
	}
	return true
}

func (r *Redactor) add(value string) {
	value = strings.TrimSpace(value)
	if len(value) < 6 || setting(value) {
		return
	}
	for _, form := range []string{value, url.QueryEscape(value), url.PathEscape(value)} {
		if !slices.Contains(r.values, form) {
			r.values = append(r.values, form)
		}
	}
}

// setting tells words that stand in secret-sounding variables but are no
// secrets, and that occur in ordinary text.
func setting(value string) bool {
	switch strings.ToLower(value) {
	case "enabled", "disabled", "default", "always", "prompt", "keyring", "subprocess", "import":
		return true
	}
	return false
}

// Redact returns text without secrets, its home folder as ~.
func (r *Redactor) Redact(text string) string {
	if r == nil {
		return Redact(text)
	}
	for _, value := range r.values {
		text = strings.ReplaceAll(text, value, Mask)
	}
	return r.shorten(Redact(text))
}

// Args returns a command line without secrets. A flag and its value may stand
// apart there, which the value alone does not show.
func (r *Redactor) Args(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		if i > 0 && flagName.MatchString(args[i-1]) && !strings.HasPrefix(arg, "--") {
			out[i] = Mask
			continue
		}
		out[i] = r.Redact(arg)
	}
	return out
}

// shorten writes ~ for the home folder where it stands as a whole path or the
// beginning of one.
func (r *Redactor) shorten(s string) string {
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
