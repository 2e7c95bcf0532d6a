package change

import "reflect"

// maxAlignment limits the product of the lengths of two lists that are aligned.
const maxAlignment = 1 << 20

// match is an element of one list and its counterpart in another one. An index is -1
// if there is none.
type match struct{ before, after int }

// align matches the elements of two lists: equal ones in order, then objects between
// them pairwise, so that their attributes are compared.
func align(before, after []any, p pair) []match {
	equal := func(i, j int) bool {
		return !containsTrue(at(p.unknown, j)) && reflect.DeepEqual(before[i], after[j])
	}
	var matches []match
	i, j := 0, 0
	for _, m := range common(len(before), len(after), equal) {
		matches = append(matches, between(before, after, i, m.before, j, m.after)...)
		matches = append(matches, m)
		i, j = m.before+1, m.after+1
	}
	return append(matches, between(before, after, i, len(before), j, len(after))...)
}

// between matches the elements of two ranges that have nothing in common.
func between(before, after []any, i, endBefore, j, endAfter int) []match {
	var matches []match
	for i < endBefore && j < endAfter && isComposite(before[i]) && isComposite(after[j]) {
		matches = append(matches, match{i, j})
		i++
		j++
	}
	for ; i < endBefore; i++ {
		matches = append(matches, match{i, -1})
	}
	for ; j < endAfter; j++ {
		matches = append(matches, match{-1, j})
	}
	return matches
}

func isComposite(content any) bool {
	switch content.(type) {
	case map[string]any, []any:
		return true
	default:
		return false
	}
}

// common returns the longest common subsequence of two lists. Long lists are matched
// by position.
func common(n, m int, equal func(i, j int) bool) []match {
	var matches []match
	if n*m > maxAlignment {
		for i := range min(n, m) {
			if equal(i, i) {
				matches = append(matches, match{i, i})
			}
		}
		return matches
	}
	lengths := make([][]int32, n+1)
	for i := range lengths {
		lengths[i] = make([]int32, m+1)
	}
	same := make([]bool, n*m)
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if same[i*m+j] = equal(i, j); same[i*m+j] {
				lengths[i][j] = lengths[i+1][j+1] + 1
			} else {
				lengths[i][j] = max(lengths[i+1][j], lengths[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < n && j < m; {
		switch {
		case same[i*m+j]:
			matches = append(matches, match{i, j})
			i++
			j++
		case lengths[i+1][j] >= lengths[i][j+1]:
			i++
		default:
			j++
		}
	}
	return matches
}
