package controlplane

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// reserve reserves a port on the loopback address while the file is open: the given
// port, or any if port is 0. The kernel does not assign a reserved port to programs
// that ask for any port. A program that asks for this port gets it, because both
// sockets allow the address to be reused and this one does not listen.
func reserve(port int) (int, *os.File, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("opening a socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), "reserved port")
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		file.Close()
		return 0, nil, fmt.Errorf("preparing a socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port}); err != nil {
		file.Close()
		return 0, nil, fmt.Errorf("reserving port %d: %w", port, err)
	}
	address, err := unix.Getsockname(fd)
	if err != nil {
		file.Close()
		return 0, nil, fmt.Errorf("reading the port: %w", err)
	}
	return address.(*unix.SockaddrInet4).Port, file, nil
}
