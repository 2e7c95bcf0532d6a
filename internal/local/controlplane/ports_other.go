//go:build !linux

package controlplane

import (
	"fmt"
	"net"
	"os"
	"strconv"
)

// reserve finds out that a port is free, any when port is 0. Here it cannot be
// kept until its program takes it.
func reserve(port int) (int, *os.File, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return 0, nil, fmt.Errorf("taking port %d: %w", port, err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil, nil
}
