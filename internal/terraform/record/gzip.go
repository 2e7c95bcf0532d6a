package record

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// maxContent limits what a compressed Secret may expand to. A run can write any data
// into its own Secret, and the manager reads it.
const maxContent = 64 << 20

// Compress compresses data with gzip. The Kubernetes backend stores states in
// this form.
func Compress(data []byte) ([]byte, error) {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
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

func decompress(data []byte, limit int64) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(reader, limit+1))
	if err == nil && int64(len(content)) > limit {
		return nil, fmt.Errorf("the content exceeds %d MiB", limit>>20)
	}
	return content, err
}
