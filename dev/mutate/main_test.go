package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const source = `package limits

// Fits reports whether n is within the limit and not negative.
func Fits(n, limit int) bool {
	return n >= 0 && n <= limit
}

func join(a, b string) string { return a + b }
`

const careless = `package limits

import "testing"

func TestFits(t *testing.T) {
	if !Fits(1, 2) {
		t.Fatal(1)
	}
}
`

func module(t *testing.T, tests string) options {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module limits\n\ngo 1.26\n", "limits.go": source, "limits_test.go": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return options{dir: dir, seed: 1}
}

func TestCheck_namesTheChangesThatNoTestNotices(t *testing.T) {
	var out strings.Builder
	err := check(t.Context(), module(t, careless), &out, []string{"."})
	if err == nil || !strings.Contains(err.Error(), "less than 90 %") {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"limits.go:5: >= → >", "limits.go:5: <= → <", "limits.go:5: && → ||", "2 of   5"} {
		if !strings.Contains(out.String(), want) {
			t.Fatalf("%q is missing:\n%s", want, &out)
		}
	}
}
