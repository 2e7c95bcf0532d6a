package webhooks

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The limits of AWS for tags.
const (
	maxTagKey   = 128
	maxTagValue = 256
)

// checkTags rejects tags that AWS does not accept, before a run fails.
func checkTags(path *field.Path, tags map[string]string) field.ErrorList {
	var errs field.ErrorList
	for _, key := range sortedKeys(tags) {
		at := path.Key(key)
		switch {
		case key == "" || utf8.RuneCountInString(key) > maxTagKey:
			errs = append(errs, invalid(at, key, fmt.Sprintf("a tag's key must have 1 to %d characters", maxTagKey)))
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			errs = append(errs, invalid(at, key, "keys that start with aws: are reserved by AWS: use another key, for example team"))
		}
		if utf8.RuneCountInString(tags[key]) > maxTagValue {
			errs = append(errs, invalid(at, tags[key], fmt.Sprintf("a tag's value must have at most %d characters", maxTagValue)))
		}
	}
	return errs
}
