// Command recorder is the provider of the chaos test: the module of a workspace
// executes it to create or destroy a resource. It waits, and then sends a line to the
// journal, which is the only record of what exists.
//
//	recorder 'JOURNAL SECONDS WORD NAME NUMBER ID'
package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
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
	line := strings.Join(append(args[2:], tool), " ") + "\n"
	// Do not use the proxy of the environment.
	client := http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	response, err := client.Post(args[0], "text/plain", strings.NewReader(line))
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		return fmt.Errorf("writing the journal: %s: %s", response.Status, body)
	}
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
