package placeholder

import "strings"

// Parse splits a text into literal text and placeholders. It returns a
// *SyntaxError for a malformed placeholder.
func Parse(text string) ([]Part, error) {
	var parts []Part
	var literal strings.Builder
	start := 0
	flush := func() {
		if literal.Len() > 0 {
			parts = append(parts, Part{Literal: literal.String(), Offset: start})
			literal.Reset()
		}
	}
	err := scan(text, func(p Part) bool {
		if p.Name == "" {
			if literal.Len() == 0 {
				start = p.Offset
			}
			literal.WriteString(p.Literal)
			return true
		}
		flush()
		parts = append(parts, p)
		return true
	})
	if err != nil {
		return nil, err
	}
	flush()
	return parts, nil
}
