package record

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
)

// stateHeader is what the manager reads of a state. A run writes its state, and the manager
// must not need memory for what is in it.
type stateHeader struct {
	lineage string
	serial  uint64
	// hasResources reports whether there is a resource, and isEncrypted whether the state
	// is encrypted.
	hasResources, isEncrypted bool
}

// maxHeader limits the size of a name or a value in the header of a state.
const maxHeader = 1 << 10

var (
	errGzip  = errors.New("the state is not valid gzip")
	errState = errors.New("the state is not valid JSON")
)

// readStateHeader reads the header of a compressed state. It keeps only a few bytes of the
// state at a time.
func readStateHeader(data []byte) (*stateHeader, error) {
	compressed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, errGzip
	}
	limited := &io.LimitedReader{R: compressed, N: maxContent + 1}
	s := &stateScanner{from: bufio.NewReader(limited)}
	header, err := s.header()
	switch {
	case limited.N <= 0:
		return nil, errors.New("the state exceeds 64 MiB")
	case s.failed != nil:
		return nil, errGzip
	case err != nil:
		// The message of a decoder may quote the state.
		return nil, errState
	}
	return header, nil
}

// stateScanner reads JSON without keeping it.
type stateScanner struct {
	from *bufio.Reader
	// failed is the error of from, apart from its end.
	failed error
}

func (s *stateScanner) read() (byte, error) {
	b, err := s.from.ReadByte()
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed = err
	}
	return b, err
}

// header reads the object that is the state.
func (s *stateScanner) header() (*stateHeader, error) {
	header := &stateHeader{}
	if b, err := s.next(); err != nil || b != '{' {
		return nil, errState
	}
	for separator := byte('{'); ; {
		b, err := s.next()
		switch {
		case err != nil:
			return nil, err
		case b == '}' && separator == '{':
			return header, s.end()
		case b != '"':
			return nil, errState
		}
		name, err := s.text()
		if err != nil {
			return nil, err
		}
		if b, err := s.next(); err != nil || b != ':' {
			return nil, errState
		}
		if err := s.field(header, name); err != nil {
			return nil, err
		}
		if separator, err = s.next(); err != nil || separator != ',' && separator != '}' {
			return nil, errState
		}
		if separator == '}' {
			return header, s.end()
		}
	}
}

// field reads the value of a field.
func (s *stateScanner) field(header *stateHeader, name string) error {
	value, isEmpty, err := s.value()
	if err != nil {
		return err
	}
	switch name {
	case "lineage":
		return json.Unmarshal(value, &header.lineage)
	case "serial":
		return json.Unmarshal(value, &header.serial)
	case "resources":
		if value[0] != '[' && value[0] != 'n' {
			return errState
		}
		header.hasResources = header.hasResources || value[0] == '[' && !isEmpty
	case "encrypted_data":
		header.isEncrypted = header.isEncrypted || !isEmpty
	}
	return nil
}

// value reads a value. It returns the beginning of a number, a literal or a string, the
// bracket of a list or an object, and whether a string, a list or an object is empty.
func (s *stateScanner) value() (beginning []byte, isEmpty bool, err error) {
	b, err := s.next()
	switch {
	case err != nil:
		return nil, false, err
	case b == '"':
		text, err := s.text()
		return []byte(`"` + text + `"`), text == "", err
	case b == '[' || b == '{':
		isEmpty, err := s.skip()
		return []byte{b}, isEmpty, err
	}
	literal := []byte{b}
	for {
		b, err := s.read()
		if err != nil {
			return nil, false, errState
		}
		if bytes.IndexByte([]byte(",]} \t\r\n"), b) >= 0 {
			if !json.Valid(literal) {
				return nil, false, errState
			}
			return literal, false, s.from.UnreadByte()
		}
		if literal = append(literal, b); len(literal) > maxHeader {
			return nil, false, errState
		}
	}
}

// text reads the rest of a string, and returns its beginning as it is in the JSON.
func (s *stateScanner) text() (string, error) {
	var text []byte
	for escaped := false; ; {
		b, err := s.read()
		switch {
		case err != nil:
			return "", errState
		case !escaped && b == '"':
			return string(text), nil
		}
		escaped = !escaped && b == '\\'
		if len(text) < maxHeader {
			text = append(text, b)
		}
	}
}

// skip reads the rest of a list or an object, and reports whether it has no elements.
func (s *stateScanner) skip() (isEmpty bool, err error) {
	isEmpty = true
	for depth := 1; depth > 0; {
		b, err := s.next()
		switch {
		case err != nil:
			return false, err
		case b == ']' || b == '}':
			depth--
			continue
		case b == '[' || b == '{':
			depth++
		case b == '"':
			if _, err := s.text(); err != nil {
				return false, err
			}
		}
		isEmpty = false
	}
	return isEmpty, nil
}

// next returns the next byte that is not white space.
func (s *stateScanner) next() (byte, error) {
	for {
		b, err := s.read()
		if err != nil {
			return 0, errState
		}
		if b != ' ' && b != '\t' && b != '\r' && b != '\n' {
			return b, nil
		}
	}
}

// end returns an error if there is more than white space.
func (s *stateScanner) end() error {
	for {
		switch b, err := s.read(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case b != ' ' && b != '\t' && b != '\r' && b != '\n':
			return errState
		}
	}
}
