package inspect

import (
	"fmt"
	"iter"
	"slices"
)

// suggest renders a question about the name that was probably meant, or nothing.
func suggest(name string, known iter.Seq[string]) string {
	best := Nearest(name, known)
	if best == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", best)
}

// Nearest is the known name that was probably meant by another, or nothing.
func Nearest(name string, known iter.Seq[string]) string {
	best, distance := "", max(len(name)/3, 1)+1
	for _, candidate := range slices.Sorted(known) {
		if d := editDistance(name, candidate); d < distance {
			best, distance = candidate, d
		}
	}
	return best
}

// editDistance counts the letters to insert, remove or replace.
func editDistance(a, b string) int {
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
