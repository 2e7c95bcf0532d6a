//go:build !linux

package controlplane

import (
	"fmt"
	"net"
	"os"
	"strconv"
)

// reserve finds a free port on the loopback address: the given one, or any if port is
// 0. On this system the port cannot be reserved until its program listens on it.
func reserve(port int) (int, *os.File, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return 0, nil, fmt.Errorf("reserving port %d: %w", port, err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil, nil
}
