package placeholder

import (
	"slices"
	"strings"
)

// Nearest returns the known name that a person most likely meant by name. It
// finds none when all of them are too different.
func Nearest(name string, known []string) (string, bool) {
	best, found := "", false
	// More than every third character wrong is another word, not a slip.
	limit := max(1, len([]rune(name))/3)
	closest := [2]int{limit + 1, 0}
	for _, k := range known {
		// The spelling counts before the case.
		d := [2]int{distance(strings.ToLower(name), strings.ToLower(k)), distance(name, k)}
		if slices.Compare(d[:], closest[:]) < 0 {
			best, found, closest = k, true, d
		}
	}
	return best, found
}

// distance is the number of characters to insert, delete, replace or swap with
// their neighbour to turn a into b.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, previous, current := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(s); i++ {
		current[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(t)]
}
