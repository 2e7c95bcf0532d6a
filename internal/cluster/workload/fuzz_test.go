package workload

import (
	"bytes"
	"strings"
	"testing"
)

// Whatever a kubeconfig contains, a cleaned one runs nothing and names no file.
func FuzzKubeconfigClean(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(strings.Replace(good, "token: s3cret", "exec: {command: aws}", 1)))
	f.Add([]byte(strings.Replace(good, "token: s3cret", "tokenFile: /x", 1)))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		cleaned, err := Clean(content)
		if err != nil {
			return
		}
		for _, field := range []string{"exec:", "tokenFile:", "auth-provider:", "client-certificate:", "client-key:", "certificate-authority:", "proxy-url:", "as:"} {
			for line := range bytes.Lines(cleaned) {
				if bytes.HasPrefix(bytes.TrimSpace(line), []byte(field)) {
					t.Fatalf("%s is left in %q", field, cleaned)
				}
			}
		}
		if _, err := Clean(cleaned); err != nil {
			t.Fatalf("cleaning again: %v", err)
		}
	})
}
