package command

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/appthrust/capt/internal/host"
)

// question lets this process decide about the plan of a command that also applies it: the
// tool asks, and reads the answer from its standard input. Without an answer, for example
// because this process has ended, it reads the end of a file and applies nothing.
type question struct {
	// text is what the tool prints for humans, in a file without a name.
	text *os.File
	// events is the file to which the tool writes its events.
	events *os.File
	// stdin is the end of the tool, and answers the other one. They are sockets: other than
	// a pipe, no process can open one that it has not inherited, so only this process
	// answers.
	stdin, answers *os.File
	// decide is called once, when the tool asks, and answers.
	decide func()
	// asked is set when the tool has asked.
	asked bool
}

func newQuestion(text *os.File) (*question, error) {
	// A process that starts meanwhile must not inherit them.
	syscall.ForkLock.RLock()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(ends[0])
		syscall.CloseOnExec(ends[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("creating the standard input of the tool: %w", err)
	}
	return &question{text: text, stdin: os.NewFile(uintptr(ends[0]), "question"), answers: os.NewFile(uintptr(ends[1]), "answers")}, nil
}

func (q *question) close() {
	_ = q.stdin.Close()
	_ = q.answers.Close()
	_ = q.text.Close()
}

// ask prepares a process that writes its events to a file, and asks.
func (q *question) ask(process *call, events *os.File) {
	q.events = events
	process.stdout, process.stdin = q.text, q.stdin
	process.args = append(slices.Clip(process.args), "-no-color", "-json-into="+events.Name())
	process.env = append(slices.DeleteFunc(slices.Clone(process.env), func(entry string) bool { return strings.HasPrefix(entry, inputEnv+"=") }), inputEnv+"=1")
	process.hurry = func() bool { return !q.asked }
	poll := process.poll
	process.poll = func(ended bool) {
		asks := !q.asked && q.asks()
		// The tool writes the events of a plan before it asks about it.
		poll(ended)
		if asks {
			q.asked = true
			q.decide()
			// The tool passes its standard input on to providers: none of them waits for more.
			_ = q.answers.Close()
		}
	}
}

// inputEnv is the environment variable that lets the tool ask.
const inputEnv = "TF_INPUT"

// prompt is the end of all questions of the tool.
const prompt = "Enter a value:"

// asks reports whether the tool waits for an answer: it prints nothing after a question.
func (q *question) asks() bool {
	info, err := q.text.Stat()
	if err != nil {
		return false
	}
	end := make([]byte, 4*len(prompt))
	n, _ := q.text.ReadAt(end, max(0, info.Size()-int64(len(end))))
	return bytes.Contains(end[:n], []byte(prompt))
}

// printed returns what the tool has printed, or its first part if it is longer than limit.
func (q *question) printed(limit int64) string {
	text, _ := io.ReadAll(io.NewSectionReader(q.text, 0, limit+1))
	return string(text)
}

// accept lets the tool apply the plan. Before that, there must be space for the state, which
// the tool prints if it can write it nowhere.
func (q *question) accept() error {
	if err := host.Reserve(q.events, minReserved); err != nil {
		return err
	}
	// If the tool has ended, its exit status says why.
	_, _ = q.answers.WriteString("yes\n")
	return nil
}
