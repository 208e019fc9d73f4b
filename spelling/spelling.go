// Package spelling finds the name that a mistyped one may have meant.
package spelling

import "strings"

// Distance is the number of insertions, deletions and substitutions of bytes
// that turn a into b (Levenshtein).
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// minPrefix is how many bytes a beginning must have to name something.
const minPrefix = 3

// Nearest returns the position of the name that typed is most like, and how far
// it is: 0 where typed is a name or the beginning of one (the shortest such
// name is taken), else the distance. Of equals the first counts; -1 where there
// are no names. Letters compare without case, a hyphen as an underscore.
func Nearest(typed string, names []string) (position, distance int) {
	typed = plain(typed)
	position = -1
	prefix := false
	for i, name := range names {
		name = plain(name)
		begins := len(typed) >= minPrefix && strings.HasPrefix(name, typed)
		d := Distance(typed, name)
		if position < 0 || begins && !prefix || begins == prefix && d < distance {
			position, distance, prefix = i, d, begins
		}
	}
	if prefix {
		distance = 0
	}
	return position, distance
}

func plain(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
