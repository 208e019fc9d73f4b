package spelling

import "testing"

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"ab", "ba", 2}, {"same", "same", 0}} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"mmlu", "arc_challenge", "arc_easy", "gemma-3-270m", "smollm2-135m-instruct"}
	for _, c := range []struct {
		typed, want string
		distance    int
	}{
		{"arc", "arc_easy", 0}, {"ARC-Easy", "arc_easy", 0}, {"arc_esay", "arc_easy", 2}, {"smollm2", "smollm2-135m-instruct", 0},
		{"gemma-3-270", "gemma-3-270m", 0}, {"mm", "mmlu", 2}, {"mnlu", "mmlu", 1},
	} {
		at, d := Nearest(c.typed, names)
		if names[at] != c.want || d != c.distance {
			t.Errorf("Nearest(%q) = %s at %d, want %s at %d", c.typed, names[at], d, c.want, c.distance)
		}
	}
	if at, _ := Nearest("x", nil); at != -1 {
		t.Errorf("Nearest of no names is at %d", at)
	}
}
