package events

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// longestLine is the size limit of a line in bytes. Longer lines are skipped. It
// is larger than any outputs event or state.
const longestLine = 64 << 20

// Follower calls Line with each line of a file that is being written.
type Follower struct {
	File    *os.File
	buffer  []byte
	partial []byte
	offset  int64
	skip    bool
	Line    func([]byte)
}

// Poll handles the lines that were written since the last call. If the writer has
// ended, the last line may lack a line break.
func (f *Follower) Poll(ended bool) {
	if f.buffer == nil {
		f.buffer = make([]byte, 64<<10)
	}
	for {
		n, err := f.File.ReadAt(f.buffer, f.offset)
		f.offset += int64(n)
		f.take(f.buffer[:n])
		if err != nil && !errors.Is(err, io.EOF) || n == 0 {
			break
		}
	}
	if ended && len(f.partial) > 0 {
		f.Line(f.partial)
		f.partial = nil
	}
}

func (f *Follower) take(data []byte) {
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			if f.skip = f.skip || len(f.partial)+len(data) > longestLine; f.skip {
				f.partial = nil
			} else {
				f.partial = append(f.partial, data...)
			}
			return
		}
		if !f.skip {
			f.Line(bytes.TrimRight(append(f.partial, data[:end]...), "\r"))
		}
		f.partial, f.skip = nil, false
		data = data[end+1:]
	}
}
