package main

import (
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"sync"
)

// hosts remembers the hosts that cannot be reached, so that each is given up once.
type hosts struct {
	mutex sync.Mutex
	errs  map[string]error
}

// known returns an error if the host of an address is known to be unreachable.
func (h *hosts) known(address *url.URL) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if err := h.errs[address.Host]; err != nil {
		return &unreachableError{address.Host, err}
	}
	return nil
}

// failed records that the host of an address cannot be reached.
func (h *hosts) failed(address *url.URL, err error) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.errs[address.Host] == nil {
		h.errs[address.Host] = err
	}
	return &unreachableError{address.Host, err}
}

// report prints one line for each host that could not be reached, with the cause.
func (h *hosts) report(w io.Writer) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, host := range slices.Sorted(maps.Keys(h.errs)) {
		fmt.Fprintf(w, "parts: %s cannot be reached (%s): its programs are compiled\n", host, h.errs[host])
	}
}
