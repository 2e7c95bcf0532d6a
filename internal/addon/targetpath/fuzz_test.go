package targetpath_test

import (
	"reflect"
	"testing"

	"github.com/appthrust/capt/internal/addon/targetpath"
)

// Users write paths of chart values.
func FuzzTargetPath(f *testing.F) {
	for _, seed := range []string{"a", "a.b", `a\.b.c`, "a[0].b", "a[", "[0]", "a..b", `a\`, "a[99999999999999999999]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		segments, err := targetpath.Parse(path)
		if err != nil {
			return
		}
		again, err := targetpath.Parse(targetpath.Format(segments))
		if err != nil || !reflect.DeepEqual(segments, again) {
			t.Fatalf("%q: %v becomes %v: %v", path, segments, again, err)
		}
	})
}
