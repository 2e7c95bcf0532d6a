package canary

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// encoded returns a secret as others write it. It uses no code of the search.
func encoded(t *testing.T, secret string) map[string]string {
	t.Helper()
	plain, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := json.Marshal(map[string]string{"message": string(plain)})
	if err != nil {
		t.Fatal(err)
	}
	reversed := []byte(secret)
	slices.Reverse(reversed)
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	_, _ = writer.Write([]byte("log: " + secret))
	_ = writer.Close()
	inBase64 := base64.StdEncoding.EncodeToString([]byte("some text before it: " + secret + " and after it"))
	var wrapped strings.Builder
	for i := range len(inBase64) {
		wrapped.WriteByte(inBase64[i])
		if i%20 == 19 {
			wrapped.WriteByte('\n')
		}
	}
	object, err := json.Marshal(map[string]string{"wrapped": wrapped.String()})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"plain": secret, "JSON": string(plain), "JSON in JSON": string(twice), "Go": fmt.Sprintf("%q", secret), "ASCII": fmt.Sprintf("%+q", secret),
		"query": url.Values{"q": {secret}}.Encode(), "path": (&url.URL{Path: "/" + secret}).String(), "user": (&url.URL{Scheme: "https", User: url.UserPassword("a", secret), Host: "h"}).String(),
		"hex": hex.EncodeToString([]byte(secret)), "HEX": fmt.Sprintf("%X", secret), "reversed": string(reversed),
		"base64 of base64": base64.StdEncoding.EncodeToString([]byte(inBase64)), "base64 of JSON": base64.StdEncoding.EncodeToString(plain),
		"hex of JSON":    hex.EncodeToString(plain),
		"wrapped base64": wrapped.String(), "wrapped base64 in JSON": string(object), "cut off": secret[len(secret)-window:],
		"gzip": zipped.String(), "base64 of gzip": `{"log":"` + base64.StdEncoding.EncodeToString(zipped.Bytes()) + `"}`,
	}
	for i, prefix := range []string{"", "x", "xy"} {
		all[fmt.Sprintf("base64 at %d", i)] = base64.StdEncoding.EncodeToString([]byte(prefix + secret))
		all[fmt.Sprintf("base64 for URLs at %d", i)] = base64.RawURLEncoding.EncodeToString([]byte(prefix + secret + "?"))
		text := []byte(base64.StdEncoding.EncodeToString([]byte(prefix + secret)))
		slices.Reverse(text)
		all[fmt.Sprintf("reversed base64 at %d", i)] = string(text)
	}
	return all
}

func TestFind_findsEveryEncoding(t *testing.T) {
	set := New()
	set.Plant("plain", "")
	set.Plant("special", Special)
	set.Plant("slashes", "?>?>~~")
	for _, kind := range set.Kinds() {
		for name, text := range encoded(t, set.Value(kind)) {
			around := "before " + text + " after"
			if name == "gzip" {
				around = text
			}
			found := set.Find([]byte(around))
			NewWithT(t).Expect(found).NotTo(BeEmpty(), "%s of %s: %s", name, kind, around)
			for _, f := range found {
				NewWithT(t).Expect(f).To(HavePrefix(kind+" ("), "%s of %s", name, kind)
			}
		}
	}
}

func TestFind_findsNothingElse(t *testing.T) {
	set := New()
	set.Plant("plain", "")
	set.Plant("special", Special)
	files, err := filepath.Glob("../*.go")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		text, err := os.ReadFile(file)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(set.Find(text)).To(BeEmpty(), file)
	}
	other := New()
	other.Plant("special", Special)
	for name, text := range encoded(t, other.Value("special")) {
		NewWithT(t).Expect(set.Find([]byte(text))).To(BeEmpty(), name)
	}
}
