package controlplane

import (
	"fmt"
	"math/rand/v2"
	"os"

	"golang.org/x/sys/unix"
)

// Ports below those that the kernel gives to outgoing connections. A connection on the port
// of a program that listens on all addresses would keep it from starting.
const firstPort, lastPort = 20000, 32767

// attempts is how many ports are tried.
const attempts = 100

// reserve reserves a port on the loopback address while the file is open: the given
// port, or any if port is 0. The kernel does not assign a reserved port to programs
// that ask for any port. A program that asks for this port gets it, because both
// sockets allow the address to be reused and this one does not listen.
func reserve(port int) (int, *os.File, error) {
	if port != 0 {
		return bind(port)
	}
	for range attempts {
		if number, file, err := bind(firstPort + rand.IntN(lastPort-firstPort+1)); err == nil {
			return number, file, nil
		}
	}
	return bind(0)
}

// bind reserves a port, or any port if it is 0.
func bind(port int) (int, *os.File, error) {
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
