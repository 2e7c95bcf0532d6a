package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A program is asked for its version once, and again when it changes.
func TestProbes_askOnce(t *testing.T) {
	p, s := newPlaces(t)
	if err := os.MkdirAll(p.cache, 0o755); err != nil {
		t.Fatal(err)
	}
	path := script(t, p.first, thing.name, "v1.3.2")
	count := filepath.Join(p.first, "count")
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	counting := strings.Replace(string(body), "cat <<", "echo >> "+count+"\ncat <<", 1)
	if err := os.WriteFile(path, []byte(counting), 0o755); err != nil {
		t.Fatal(err)
	}
	ask := func(version string, want bool) {
		t.Helper()
		probes := s.newProbes()
		if got := probes.prints(t.Context(), path, []string{"version"}, version); got != want {
			t.Errorf("prints %s: %v", version, got)
		}
		probes.save()
	}
	asked := func(want int) {
		t.Helper()
		text, err := os.ReadFile(count)
		if err != nil || len(text) != want {
			t.Errorf("asked %d times (%v), want %d", len(text), err, want)
		}
	}
	ask("v1.3.2", true)
	ask("v1.3.2", true)
	asked(1)
	ask("v1.3.3", false)
	asked(2)
	if err := os.WriteFile(path, []byte(counting+"# changed\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ask("v1.3.2", true)
	asked(3)
}

// A busy machine must not make an installed program unusable.
func TestProbes_rememberOnlyAnswers(t *testing.T) {
	p, s := newPlaces(t)
	if err := os.MkdirAll(p.cache, 0o755); err != nil {
		t.Fatal(err)
	}
	path := script(t, p.first, thing.name, "v1.3.2")
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	slow := filepath.Join(p.first, "slow")
	waiting := strings.Replace(string(body), "cat <<", "test ! -e "+slow+" || exec sleep 60\ncat <<", 1)
	for file, text := range map[string]string{path: waiting, slow: ""} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	probes := s.newProbes()
	probes.timeout = 100 * time.Millisecond
	if probes.prints(t.Context(), path, []string{"version"}, "v1.3.2") {
		t.Error("a program that did not answer was believed")
	}
	if len(probes.silent) != 1 || !strings.Contains(probes.silent[0], path+": it did not print its version within 100ms") {
		t.Errorf("silent: %q", probes.silent)
	}
	probes.save()
	if err := os.Remove(slow); err != nil {
		t.Fatal(err)
	}
	if probes = s.newProbes(); !probes.prints(t.Context(), path, []string{"version"}, "v1.3.2") {
		t.Error("it is not asked again")
	}
}
