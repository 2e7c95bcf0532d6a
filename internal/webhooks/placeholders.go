package webhooks

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform/placeholder"
)

// checkPlaceholders rejects malformed placeholders.
func checkPlaceholders(path *field.Path, text string) field.ErrorList {
	if err := placeholder.Check(text); err != nil {
		return field.ErrorList{invalid(path, text, err.Error())}
	}
	return nil
}

// maxUnknown is how many unknown placeholders of a text are reported.
const maxUnknown = 20

// checkKnownPlaceholders rejects malformed and unknown placeholders.
func checkKnownPlaceholders(path *field.Path, text string, known []string) field.ErrorList {
	names, err := placeholder.Names(text)
	if err != nil {
		return field.ErrorList{invalid(path, text, err.Error())}
	}
	var errs field.ErrorList
	for _, name := range names {
		if slices.Contains(known, name) {
			continue
		}
		detail := fmt.Sprintf("unknown placeholder: use one of %s, or write $${ for a literal ${", strings.Join(known, ", "))
		if nearest, ok := message.Nearest(name, known); ok {
			detail = fmt.Sprintf("unknown placeholder: did you mean ${%s}? Use one of %s", nearest, strings.Join(known, ", "))
		}
		if errs = append(errs, invalid(path, "${"+name+"}", detail)); len(errs) == maxUnknown {
			break
		}
	}
	return errs
}

// checkValuePlaceholders is checkKnownPlaceholders for a string that may be ${json:NAME}
// as a whole.
func checkValuePlaceholders(path *field.Path, text string, known []string) field.ErrorList {
	if name, found := placeholder.JSON(text); found {
		text = "${" + name + "}"
	}
	return checkKnownPlaceholders(path, text, known)
}

// eachString calls check for every string in a JSON value.
func eachString(path *field.Path, raw []byte, check func(*field.Path, string) field.ErrorList) field.ErrorList {
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return field.ErrorList{invalid(path, string(raw), "must be a JSON value: "+err.Error())}
	}
	return eachStringOf(path, value, check)
}

func eachStringOf(path *field.Path, value any, check func(*field.Path, string) field.ErrorList) field.ErrorList {
	var errs field.ErrorList
	switch v := value.(type) {
	case string:
		errs = check(path, v)
	case []any:
		for i, item := range v {
			errs = append(errs, eachStringOf(path.Index(i), item, check)...)
		}
	case map[string]any:
		for _, key := range sortedKeys(v) {
			errs = append(errs, eachStringOf(path.Key(key), v[key], check)...)
		}
	}
	return errs
}
