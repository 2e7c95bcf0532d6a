package testenv

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// tcpListen is the state of a socket that accepts connections.
const tcpListen = 0x0A

// Listener is a TCP port that a process accepts connections on.
type Listener struct {
	// Program is the name of the executable file.
	Program string
	Address net.IP
	Port    int
}

func (l Listener) String() string {
	return l.Program + " " + net.JoinHostPort(l.Address.String(), strconv.Itoa(l.Port))
}

// ListenersOf returns what the processes listen on whose arguments or environment contain a
// text, such as the directory of a test.
func ListenersOf(text string) ([]Listener, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, fmt.Errorf("reading processes: %w", err)
	}
	sockets, err := listening(fs)
	if err != nil {
		return nil, err
	}
	var found []Listener
	for _, line := range ProcessesOf(text) {
		pid, err := strconv.Atoi(line[:max(0, strings.IndexByte(line, ' '))])
		if err != nil {
			return nil, fmt.Errorf("reading processes: %s", line)
		}
		process, err := fs.Proc(pid)
		if err != nil {
			continue // It has exited.
		}
		program, _ := process.Executable()
		targets, _ := process.FileDescriptorTargets()
		for _, target := range targets {
			if socket, listens := sockets[target]; listens {
				found = append(found, Listener{Program: filepath.Base(program), Address: socket.LocalAddr, Port: int(socket.LocalPort)})
			}
		}
	}
	slices.SortFunc(found, func(a, b Listener) int { return strings.Compare(a.String(), b.String()) })
	return slices.CompactFunc(found, func(a, b Listener) bool { return a.String() == b.String() }), nil
}

// socketLine is a line of the list of sockets.
type socketLine struct {
	LocalAddr net.IP
	LocalPort uint64
}

// listening returns the sockets of this machine that accept connections, by the target of
// their file descriptors.
func listening(fs procfs.FS) (map[string]socketLine, error) {
	four, err := fs.NetTCP()
	if err != nil {
		return nil, fmt.Errorf("reading sockets: %w", err)
	}
	// A kernel without IPv6 has none.
	six, _ := fs.NetTCP6()
	sockets := map[string]socketLine{}
	for _, line := range append(four, six...) {
		if line.St == tcpListen {
			sockets[fmt.Sprintf("socket:[%d]", line.Inode)] = socketLine{line.LocalAddr, line.LocalPort}
		}
	}
	return sockets, nil
}
