package record

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"sync"
)

// maxContent limits what a compressed Secret may expand to. A run can write any data
// into its own Secret, and the manager reads it.
const maxContent = 64 << 20

// writers are gzip writers for reuse. A new one allocates and clears most of a megabyte,
// which costs more than the compression of a small content.
var writers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// Compress compresses data with gzip. The Kubernetes backend stores states in
// this form.
func Compress(data []byte) ([]byte, error) {
	var out bytes.Buffer
	writer := writers.Get().(*gzip.Writer)
	defer writers.Put(writer)
	writer.Reset(&out)
	if _, err := writer.Write(data); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Decompress reverses Compress. It fails if the content exceeds 64 MiB.
func Decompress(data []byte) ([]byte, error) { return decompress(data, maxContent) }

// decompress reverses Compress. It reads the content twice, the first time only to learn its
// size: a buffer that grows needs several times the memory.
func decompress(data []byte, limit int64) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	size, err := io.Copy(io.Discard, io.LimitReader(reader, limit+1))
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("the content exceeds %d MiB", limit>>20)
	}
	if err := reader.Reset(bytes.NewReader(data)); err != nil {
		return nil, err
	}
	content := make([]byte, size)
	_, err = io.ReadFull(reader, content)
	return content, err
}
