package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// canceler cancels a context when a text is written to it.
type canceler struct {
	text   string
	cancel func()
}

func (c canceler) Write(data []byte) (int, error) {
	if strings.Contains(string(data), c.text) {
		c.cancel()
	}
	return len(data), nil
}

// The other build may take half an hour.
func TestBuild_canBeInterruptedWhileItWaits(t *testing.T) {
	s := store{cache: t.TempDir()}
	lock, err := os.Create(filepath.Join(s.cache, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.build(ctx, canceler{"waiting for another build", cancel}, thing, "[1/1]", "")
		ended <- err
	}()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}
