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

const thorough = `package limits

import "testing"

func TestFits(t *testing.T) {
	for n, want := range map[int]bool{-1: false, 0: true, 1: true, 2: true, 3: false} {
		if Fits(n, 2) != want {
			t.Fatal(n)
		}
	}
	if join("a", "b") != "ab" {
		t.Fatal("join")
	}
}
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

func TestCheck_passesTestsThatNoticeEveryChange(t *testing.T) {
	var out strings.Builder
	if err := check(t.Context(), module(t, thorough), &out, []string{"."}); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if !strings.Contains(out.String(), "5 of   5 changes noticed (100 %)") {
		t.Fatal(out.String())
	}
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

func TestCheck_refusesTestsThatFailWithoutAChange(t *testing.T) {
	o := module(t, strings.Replace(careless, "!Fits", "Fits", 1))
	var out strings.Builder
	if err := check(t.Context(), o, &out, []string{"."}); err == nil || !strings.Contains(err.Error(), "do not pass without a change") {
		t.Fatal(err)
	}
}

func TestCheck_needsAPackage(t *testing.T) {
	if err := check(t.Context(), options{}, &strings.Builder{}, nil); err == nil || !strings.Contains(err.Error(), "name at least one package") {
		t.Fatal(err)
	}
}
