package inspect

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/appthrust/capt/internal/elements"
)

// count returns at least the number of tokens of a configuration or variables file, or of elements
// in JSON. Strings and comments that cannot contain expressions count as one token. The lexer would
// need some hundred bytes for each.
func count(name string, content []byte) int {
	if strings.HasSuffix(name, ".json") {
		return elements.JSON(content)
	}
	return countHCL(content)
}

func countHCL(text []byte) int {
	count := 0
	for line := range bytes.Lines(text) {
		count += countLine(line)
	}
	return count
}

// mixed are the parts of a line of HCL which may be in a string, or in a comment of several
// lines, in another way than the line alone tells.
var mixed = [][]byte{[]byte("${"), []byte("%{"), []byte("/*"), []byte("*/")}

// countLine returns at least the number of tokens of a line of HCL.
func countLine(line []byte) int {
	isMixed := false
	for _, part := range mixed {
		isMixed = isMixed || bytes.Contains(line, part)
	}
	content := bytes.TrimLeft(line, " \t")
	if !isMixed && (bytes.HasPrefix(content, []byte("#")) || bytes.HasPrefix(content, []byte("//"))) {
		return 1
	}
	count, inWord, inString := 0, false, false
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRune(line[i:])
		i += size
		switch {
		case inString && r == '\\':
			i++
		case !isMixed && r == '"':
			inString, inWord = !inString, false
			count++
		case inString:
		case r == ' ' || r == '\t' || r == '\r':
			inWord = false
		case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			if !inWord {
				count++
			}
			inWord = true
		default:
			count++
			inWord = false
		}
	}
	return count
}
