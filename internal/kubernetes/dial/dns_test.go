package dial

import (
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
)

// startDNS starts a name server whose first answers are public addresses, and all later
// ones loopback. It returns its address.
func startDNS(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 1024)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer, err := answerTo(buffer[:n]); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return conn.LocalAddr().String()
}

var answered atomic.Int32

// answerTo returns the answer to a query with one question: an address for type A, and
// nothing for others.
func answerTo(query []byte) ([]byte, error) {
	const header = 12
	end := header
	for end < len(query) && query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5 // The root label, the type and the class.
	if end > len(query) {
		return nil, errors.New("the query is truncated")
	}
	answer := append([]byte{}, query[:end]...)
	copy(answer[2:header], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
	if isA := binary.BigEndian.Uint16(query[end-4:]) == 1; !isA {
		return answer, nil
	}
	address := []byte{127, 0, 0, 1}
	if answered.Add(1) == 1 {
		address = []byte{203, 0, 113, 1}
	}
	answer[7] = 1
	// A pointer to the name in the question, type A, class IN, TTL 0, and the length.
	answer = append(answer, 0xc0, header, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
	return append(answer, address...), nil
}
