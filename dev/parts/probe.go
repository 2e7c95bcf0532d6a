package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// probes remembers which installed programs print which version, because asking each
// one takes a second.
type probes struct {
	file    string
	known   map[string]bool
	changed bool
	// timeout is how long a program may take to answer, and silent are those that took longer.
	timeout time.Duration
	silent  []string
}

func (s store) newProbes() *probes {
	p := &probes{file: filepath.Join(s.cache, "probes.json"), known: map[string]bool{}, timeout: probeTimeout}
	if text, err := os.ReadFile(p.file); err == nil {
		// A damaged file costs only time.
		_ = json.Unmarshal(text, &p.known)
	}
	return p
}

// prints reports whether a program prints exactly the version. Only an answer is remembered: the
// machine may have been busy.
func (p *probes) prints(ctx context.Context, path string, args []string, version string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	inode := uint64(0)
	if stat, is := info.Sys().(*syscall.Stat_t); is {
		inode = stat.Ino
	}
	key := fmt.Sprintf("%s %d %d %d %s %s", path, inode, info.Size(), info.ModTime().UnixNano(), strings.Join(args, " "), version)
	result, found := p.known[key]
	if found {
		return result
	}
	result, err = printsVersion(ctx, p.timeout, path, args, version)
	if err != nil {
		p.silent = append(p.silent, fmt.Sprintf("%s: %v", path, err))
		return false
	}
	p.known[key], p.changed = result, true
	return result
}

// save keeps what was learnt.
func (p *probes) save() {
	if !p.changed {
		return
	}
	if text, err := json.Marshal(p.known); err == nil {
		// Without the file, the next call asks again.
		_ = os.WriteFile(p.file, text, 0o644)
	}
}
