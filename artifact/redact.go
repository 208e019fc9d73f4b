package artifact

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

const mask = "[redacted]"

// Redactor cuts secrets out of texts. The zero value knows only the patterns:
// user and password in URLs, signatures and tokens in their queries,
// authorization headers, npm's _authToken lines, and tokens of well-known form.
type Redactor struct {
	values []string // literal secrets, longest first
}

var (
	secretName = regexp.MustCompile(`(?i)(token|secret|passw|credential|cookie|private|(^|_)auth(_|$|orization|token)|(^|_|api|access)key(_|$))`)
	userinfo   = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s'"<>@]+@`)
	query      = regexp.MustCompile(`(?i)([?&;](?:[\w.-]*(?:token|secret|passw\w*|key|signature|credential|auth|sig)[\w.-]*)=)[^&\s'"<>#]+`)
	header     = regexp.MustCompile(`(?i)((?:proxy-)?authorization["']?\s*[:=]\s*["']?)(?:(?:bearer|basic|token)\s+)?[^\s'",;]+`)
	bearer     = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`)
	pair       = regexp.MustCompile(`(?i)\b([\w-]*(?:(?:_auth|password|passwd|secret|api[_-]?key)["']?\s*[=:]|token["']?=)\s*["']?)[^\s'",;&]+`)
	wellKnown  = regexp.MustCompile(`\b(?:hf_[A-Za-z0-9]{8,}|npm_[A-Za-z0-9]{8,}|pypi-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|AKIA[A-Z0-9]{12,})`)
)

// NewRedactor also hides the values of the variables in environ ("NAME=value")
// that are named like secrets, the users and passwords of all URLs in environ,
// and the given secrets. Values shorter than six bytes are left alone: hiding
// them would garble ordinary text.
func NewRedactor(environ []string, secrets ...string) *Redactor {
	r := &Redactor{}
	for _, secret := range secrets {
		r.add(secret)
	}
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		if secretName.MatchString(name) && !strings.HasPrefix(value, "/") {
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

func (r *Redactor) add(secret string) {
	secret = strings.TrimSpace(secret)
	if len(secret) < 6 || secretFree(secret) {
		return
	}
	for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
		if !slices.Contains(r.values, form) {
			r.values = append(r.values, form)
		}
	}
}

// secretFree tells words that stand in secret-sounding variables but are no
// secrets, and that occur in ordinary text.
func secretFree(value string) bool {
	switch strings.ToLower(value) {
	case "enabled", "disabled", "default", "always", "prompt", "keyring", "subprocess", "import":
		return true
	}
	return false
}

// Redact returns text with every known secret replaced. A nil Redactor knows
// only the patterns.
func (r *Redactor) Redact(text string) string {
	if r != nil {
		for _, value := range r.values {
			text = strings.ReplaceAll(text, value, mask)
		}
	}
	text = userinfo.ReplaceAllString(text, "${1}"+mask+"@")
	text = query.ReplaceAllString(text, "${1}"+mask)
	text = header.ReplaceAllString(text, "${1}"+mask)
	text = bearer.ReplaceAllString(text, "${1} "+mask)
	text = pair.ReplaceAllString(text, "${1}"+mask)
	return wellKnown.ReplaceAllString(text, mask)
}
