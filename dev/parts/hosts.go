package main

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"sync"
	"time"
)

// hostMemory is how long a host that cannot be reached is not tried again, also by the
// following calls of one make.
const hostMemory = 10 * time.Minute

// hosts remembers the hosts that cannot be reached in a file.
type hosts struct {
	mutex  sync.Mutex
	file   string
	byHost map[string]failure
	// fresh are the failures of this process.
	fresh map[string]failure
}

// failure is the last failure of a host.
type failure struct {
	Time  time.Time `json:"time"`
	Error string    `json:"error"`
}

func newHosts(file string) *hosts {
	h := &hosts{file: file, byHost: map[string]failure{}, fresh: map[string]failure{}}
	if text, err := os.ReadFile(file); err == nil {
		// A damaged file costs only another attempt.
		_ = json.Unmarshal(text, &h.byHost)
	}
	maps.DeleteFunc(h.byHost, func(_ string, f failure) bool { return time.Since(f.Time) > hostMemory })
	return h
}

// known returns an error if a host is known to be unreachable.
func (h *hosts) known(host string) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if f, found := h.byHost[host]; found {
		return &unreachableError{host, errors.New(f.Error)}
	}
	return nil
}

// failed records that a host cannot be reached.
func (h *hosts) failed(host string, err error) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	problem := failure{Time: time.Now(), Error: err.Error()}
	if _, found := h.byHost[host]; !found {
		h.byHost[host], h.fresh[host] = problem, problem
		if text, err := json.Marshal(h.byHost); err == nil {
			// Without the file, the next call tries the host again.
			_ = os.WriteFile(h.file, text, 0o644)
		}
	}
	return &unreachableError{host, err}
}
