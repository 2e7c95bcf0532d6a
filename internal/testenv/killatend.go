package testenv

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// killAll reads the name of a directory, waits for the end of its input, and kills every process
// whose arguments or environment contain the directory. Neither its own arguments and environment
// nor those of grep contain the name.
const killAll = `read -r dir || exit
read -r _
for file in $(echo "$dir" | grep -lsFf - /proc/[0-9]*/cmdline /proc/[0-9]*/environ); do
  pid=${file#/proc/}
  kill -9 "${pid%/*}" || :
done
`

// KillAtEnd kills every process whose arguments or environment contain a directory, and
// removes the directory, when this process ends without calling stop: because it was
// interrupted or killed, or because the time of the tests is over. It kills only on Linux.
func KillAtEnd(dir string) (stop func() error, err error) {
	cmd := exec.Command("/bin/sh", "-c", killAll+`rm -rf "$dir"`)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	// The kernel closes the input with this process. An interrupt of the terminal does not
	// reach another process group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("connecting to the killer: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the killer: %w", err)
	}
	stop = func() error {
		err := cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	_, err = io.WriteString(input, dir+"\n")
	return stop, err
}
