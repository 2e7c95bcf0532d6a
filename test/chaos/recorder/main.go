// Command recorder is the provider of the chaos test: the module of a workspace
// executes it to create or destroy a resource. It waits, and then sends a line to the
// journal, which is the only record of what exists.
//
//	recorder 'ADDRESS/WORKSPACE SECONDS WORD NAME NUMBER ID'
//
// A tool that is stopped kills it, and then considers the resource as failed. So it must
// exit at once after it has sent the line, without waiting for a response.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// accepted is the first line of the server if it accepts a line.
const accepted = "ok"

func main() {
	if err := run(strings.Fields(strings.Join(os.Args[1:], " "))); err != nil {
		fmt.Fprintln(os.Stderr, "recorder:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 6 {
		return errors.New("usage: recorder ADDRESS/WORKSPACE SECONDS WORD NAME NUMBER ID")
	}
	// The tool may be killed during the pause.
	tool := parent()
	pause, err := time.ParseDuration(args[1] + "s")
	if err != nil {
		return fmt.Errorf("reading the pause: %w", err)
	}
	time.Sleep(pause)
	address, workspace, _ := strings.Cut(args[0], "/")
	connection, err := net.DialTimeout("tcp", address, time.Minute)
	if err != nil {
		return fmt.Errorf("connecting to the journal: %w", err)
	}
	greeting, err := bufio.NewReader(connection).ReadString('\n')
	if err != nil {
		return fmt.Errorf("connecting to the journal: %w", err)
	}
	if greeting = strings.TrimSpace(greeting); greeting != accepted {
		return errors.New(greeting)
	}
	line := []byte(workspace + " " + strings.Join(append(args[2:], tool), " ") + "\n")
	if _, err := connection.Write(line); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	os.Exit(0)
	return nil
}

// parent returns the PID and the start time of the tool, separated by @. The PID is that
// in the container, so it is not unique without the start time.
func parent() string {
	pid := os.Getppid()
	process, err := procfs.NewProc(pid)
	if err != nil {
		return fmt.Sprintf("%d@0", pid)
	}
	stat, err := process.Stat()
	if err != nil {
		return fmt.Sprintf("%d@0", pid)
	}
	return fmt.Sprintf("%d@%d", pid, stat.Starttime)
}
