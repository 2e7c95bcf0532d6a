package command

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/appthrust/capt/internal/host"
)

// question lets this process decide about the plan of a command that also applies it: the
// tool asks, and reads the answer from its standard input. If this process ends before it
// answers, the tool reads the end of a file and applies nothing.
type question struct {
	// text is what the tool prints for humans, in a file without a name.
	text *os.File
	// events is the file to which the tool writes its events.
	events *os.File
	// stdin is the end of the tool, and answers the other one. They are sockets: other than
	// a pipe, no process can open one that it has not inherited, so only this process
	// answers.
	stdin, answers *os.File
	// answered is set after an answer. strayed is set if the tool has asked for anything
	// else, which has no answer.
	answered, strayed bool
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
	process.hurry = func() bool { return !q.answered }
	poll := process.poll
	process.poll = func(ended bool) {
		// The tool writes the event before it asks about the plan: what is asked before the
		// events are read is about something else if they do not contain it.
		asked := !q.answered && q.isAsked()
		poll(ended)
		if asked && !q.answered {
			q.answered, q.strayed = true, true
			_ = q.answers.Close()
		}
	}
}

// inputEnv is the environment variable that lets the tool ask.
const inputEnv = "TF_INPUT"

// prompt is the end of all questions of the tool.
const prompt = "Enter a value:"

// isAsked reports whether the tool waits for an answer: it prints nothing after a question.
func (q *question) isAsked() bool {
	end := make([]byte, 4*len(prompt))
	n, _ := q.text.ReadAt(end, max(0, q.size()-int64(len(end))))
	return bytes.Contains(end[:n], []byte(prompt))
}

// size returns how much the tool has printed: the plan, without sensitive values.
func (q *question) size() int64 {
	info, err := q.text.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// answer answers the question about the plan. Before the tool applies it, there must be space
// for the state, which the tool prints if it can write it nowhere. An error means no.
func (q *question) answer(apply bool) (err error) {
	q.answered = true
	text := "no\n"
	if apply {
		if err = host.Reserve(q.events, minReserved+4*q.size()); err == nil {
			text = "yes\n"
		}
	}
	// If the tool has ended, its exit status says why.
	_, _ = q.answers.WriteString(text)
	return err
}
