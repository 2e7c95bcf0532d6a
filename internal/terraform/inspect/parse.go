package inspect

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
)

// Parse parses a configuration file, in the syntax of its name. It returns what can be read
// of an invalid file, and nil if there is nothing. TooDeep is set if the file is nested too
// deeply, or too large, to be parsed.
func Parse(name string, content []byte) (body hcl.Body, tooDeep bool) {
	if Complexity(name, content).HasErrors() {
		return nil, true
	}
	parse := hclparse.NewParser().ParseHCL
	if strings.HasSuffix(name, ".json") {
		parse = hclparse.NewParser().ParseJSON
	}
	file, _ := parse(content, name)
	if file == nil {
		return nil, false
	}
	return file.Body, false
}
