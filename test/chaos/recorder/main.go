// Command recorder is the provider of the chaos test: the module of a workspace
// executes it to create or destroy a resource. It waits, and then sends a line to the
// journal, which is the only record of what exists.
//
//	recorder 'JOURNAL SECONDS WORD NAME NUMBER ID'
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

func main() {
	if err := run(strings.Fields(strings.Join(os.Args[1:], " "))); err != nil {
		fmt.Fprintln(os.Stderr, "recorder:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 6 {
		return errors.New("usage: recorder JOURNAL SECONDS WORD NAME NUMBER ID")
	}
	// The tool may be killed during the pause.
	tool := parent()
	pause, err := time.ParseDuration(args[1] + "s")
	if err != nil {
		return fmt.Errorf("reading the pause: %w", err)
	}
	time.Sleep(pause)
	if err := send(args[0], strings.Join(append(args[2:], tool), " ")+"\n"); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return nil
}

// send sends a line to the journal, once the server has accepted the request, and does
// not wait for the response. The tool may kill this process at any time, and then
// repeats the record. So this process exits as soon as the line is sent.
func send(address, line string) error {
	to, err := url.Parse(address)
	if err != nil {
		return err
	}
	// Do not use the proxy of the environment.
	connection, err := net.DialTimeout("tcp", to.Host, time.Minute)
	if err != nil {
		return err
	}
	if err := connection.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", to.Path, to.Host, len(line))
	if err != nil {
		return err
	}
	// The line and the empty line after it.
	response := bufio.NewReader(connection)
	status, err := response.ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.Contains(status, " 100 ") {
		// The headers and the body of an error are one short text.
		text, _ := io.ReadAll(io.LimitReader(response, 1000))
		return fmt.Errorf("%s: %s", strings.TrimSpace(status), text)
	}
	if _, err := response.ReadString('\n'); err != nil {
		return err
	}
	_, err = connection.Write([]byte(line))
	return err
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
