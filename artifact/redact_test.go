package artifact

import (
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRedact(t *testing.T) {
	r := NewRedactor([]string{
		"MY_TOKEN=opaque-value-1", "PIP_INDEX_URL=https://bob:pa%40ss-word@host/simple", "HTTPS_PROXY=http://onlyuser@proxy:1",
		"SSH_AUTH_SOCK=/tmp/agent", "SHORT_SECRET=abc", "GIT_AUTHOR_NAME=somebody", "PIP_AUTH_MODE=keyring",
	}, "from-a-flag")
	for in, want := range map[string]string{
		"plain text stays: key, token and password are words":  "plain text stays: key, token and password are words",
		"opaque-value-1 from-a-flag":                           "[redacted] [redacted]",
		"pa%40ss-word pa@ss-word":                              "[redacted] [redacted]",
		"onlyuser":                                             "[redacted]",
		"abc keyring /tmp/agent somebody":                      "abc keyring /tmp/agent somebody",
		"get https://u:p@h/x?a=1&token=zzz&b=2":                "get https://[redacted]@h/x?a=1&token=[redacted]&b=2",
		"https://h/x?X-Amz-Signature=00ff&X-Amz-Credential=AK": "https://h/x?X-Amz-Signature=[redacted]&X-Amz-Credential=[redacted]",
		"Authorization: Bearer zzz.yyy":                        "Authorization: [redacted]",
		`{"authorization":"Basic dTpw"}`:                       `{"authorization":"[redacted]"}`,
		"sent bearer abcdefghijk":                              "sent bearer [redacted]",
		"//registry/:_authToken=zzz":                           "//registry/:_authToken=[redacted]",
		"x-api-key: zzz":                                       "x-api-key: [redacted]",
		"hf_abcdefgh1234":                                      "[redacted]",
		"unexpected token: '}'":                                "unexpected token: '}'",
		"git@host:repo and me@mail.example":                    "git@host:repo and me@mail.example",
	} {
		if got := r.Redact(in); got != want {
			t.Errorf("Redact(%q)\n got %q\nwant %q", in, got, want)
		}
	}
	var none *Redactor
	if got := none.Redact("http://u:p@h"); strings.Contains(got, "u:p") {
		t.Errorf("nil: %q", got)
	}
}

// TestRedactProperty plants a secret in each way it may come, inside any text.
func TestRedactProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`S3[A-Za-z0-9@:/+ _.-]{6,20}x`).Draw(t, "secret")
		before := rapid.StringMatching(`[a-z .:/]{0,20}`).Draw(t, "before")
		after := rapid.StringMatching(`[a-z .:/]{0,20}`).Draw(t, "after")
		user := url.UserPassword("user", secret)
		inURL := (&url.URL{Scheme: "https", User: user, Host: "h", Path: "/p"}).String()
		for _, environ := range [][]string{{"API_TOKEN=" + secret}, {"PIP_INDEX_URL=" + inURL}} {
			r := NewRedactor(environ)
			for _, form := range []string{secret, inURL, url.QueryEscape(secret), url.PathEscape(secret)} {
				got := r.Redact(before + form + after)
				if strings.Contains(got, secret) || strings.Contains(got, url.QueryEscape(secret)) {
					t.Fatalf("%q is in %q", secret, got)
				}
			}
		}
	})
}
