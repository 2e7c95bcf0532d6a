// Package canary plants secrets in tests, and finds them in what CAPT writes, in any
// encoding.
package canary

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// window is the length of the parts of an encoded secret that are searched, so that a
	// secret is found although it is cut off or broken into lines.
	window = 16
	// maxExpanded limits what compressed parts of a text expand to.
	maxExpanded = 16 << 20
)

// Set is a set of secrets. Add all of them before the first search.
type Set struct {
	values map[string]string
	// windows are the parts of all forms of the secrets: "kind (encoding)" by part.
	windows map[string]string
}

// New returns an empty set.
func New() *Set { return &Set{values: map[string]string{}, windows: map[string]string{}} }

// Plant creates a random secret of a kind. It contains the special characters, each
// between random ones.
func (s *Set) Plant(kind, special string) string {
	text := rand.Text() // 26 letters and digits.
	var value strings.Builder
	for i, char := range special {
		value.WriteString(text[i*2%26 : i*2%26+2])
		value.WriteRune(char)
	}
	value.WriteString(strings.ToLower(text[:12]) + rand.Text())
	s.Add(kind, value.String())
	return value.String()
}

// Printed returns a secret as programs print it, for modules that do so. The search does not
// use it.
func Printed(secret string) []string {
	inJSON, _ := json.Marshal(secret) // Strings always encode.
	encode := base64.StdEncoding.EncodeToString
	return []string{
		secret, string(inJSON), strconv.Quote(secret), url.QueryEscape(secret), url.PathEscape(secret), hex.EncodeToString([]byte(secret)),
		encode([]byte(secret)), encode([]byte("a" + secret)), base64.URLEncoding.EncodeToString([]byte("ab" + secret)),
	}
}

// Special are characters that encodings write in another way.
const Special = `"\<&+/'% ü`

// Add adds a secret that exists already. It must have at least 16 characters.
func (s *Set) Add(kind, value string) {
	if len(value) < window {
		panic(fmt.Sprintf("the secret %q is too short to be found", kind))
	}
	s.values[kind] = value
	for name, form := range forms(value) {
		for i := 0; i+window <= len(form); i++ {
			s.windows[form[i:i+window]] = kind + " (" + name + ")"
		}
	}
}

// Value returns the secret of a kind.
func (s *Set) Value(kind string) string { return s.values[kind] }

// Kinds returns the kinds of the secrets.
func (s *Set) Kinds() []string { return slices.Sorted(maps.Keys(s.values)) }

// Find returns the kinds and encodings of the secrets in a text, and in its compressed
// parts.
func (s *Set) Find(text []byte) []string {
	found := map[string]bool{}
	for _, part := range expand(text) {
		s.find(found, part)
		// Encoded values are often broken into lines, and those into JSON strings.
		s.find(found, breaks.ReplaceAll(part, nil))
	}
	return slices.Sorted(maps.Keys(found))
}

func (s *Set) find(found map[string]bool, text []byte) {
	for i := 0; i+window <= len(text); i++ {
		if name, exists := s.windows[string(text[i:i+window])]; exists {
			found[name] = true
		}
	}
}

// forms returns a secret in all encodings. In base64, a text looks different at each of
// three positions within another one.
func forms(secret string) map[string]string {
	all := map[string]string{}
	for name, text := range escapes(secret) {
		all[name] = text
		all["hex of "+name] = hex.EncodeToString([]byte(text))
		for position := range 3 {
			once := inBase64(text, position)
			all[fmt.Sprintf("base64 of %s at %d", name, position)] = once
			for outer := range 3 {
				all[fmt.Sprintf("base64 of base64 of %s at %d, %d", name, position, outer)] = inBase64(once, outer)
			}
		}
	}
	for name, text := range maps.Clone(all) {
		if strings.HasPrefix(name, "hex") {
			all[name+", upper case"] = strings.ToUpper(text)
		}
		if url := strings.NewReplacer("+", "-", "/", "_").Replace(text); strings.HasPrefix(name, "base64") && url != text {
			all[name+", URL alphabet"] = url
		}
	}
	for name, text := range maps.Clone(all) {
		all[name+", reversed"] = reverse(text)
	}
	return all
}

// escapes returns a text as it is, and as JSON, HCL, Go, URLs, HTML and shells write it.
func escapes(text string) map[string]string {
	inJSON := escapeJSON(text, false)
	return map[string]string{
		"plain": text, "JSON": inJSON, "JSON in JSON": escapeJSON(inJSON, false),
		"JSON for HTML": escapeJSON(text, true), "JSON for HTML in JSON": escapeJSON(escapeJSON(text, true), false),
		"Go": unquoted(strconv.Quote(text)), "ASCII": unquoted(strconv.QuoteToASCII(text)),
		"query": url.QueryEscape(text), "path": url.PathEscape(text), "user": url.UserPassword("", text).String()[1:],
		"HTML": html.EscapeString(text), "shell": strings.ReplaceAll(text, "'", `'\''`),
	}
}

// inBase64 returns the characters of the encoded text that do not depend on what is around
// it, if the text is at a position modulo 3.
func inBase64(text string, position int) string {
	padded := append(make([]byte, position), text...)
	return base64.RawStdEncoding.EncodeToString(padded)[(position*8+5)/6 : len(padded)*8/6]
}

func escapeJSON(text string, forHTML bool) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(forHTML)
	if err := encoder.Encode(text); err != nil {
		panic(err) // Strings always encode.
	}
	return unquoted(strings.TrimSpace(out.String()))
}

func unquoted(text string) string { return text[1 : len(text)-1] }

func reverse(text string) string {
	runes := []byte(text)
	slices.Reverse(runes)
	return string(runes)
}

var (
	breaks     = regexp.MustCompile(`[\r\n\t ]+|\\r|\\n`)
	compressed = regexp.MustCompile(`H4sI[A-Za-z0-9+/_-]{20,}={0,2}`)
)

// expand returns a text and the content of what is compressed with gzip in it.
func expand(text []byte) [][]byte {
	parts := [][]byte{text}
	if content := gunzip(text); content != nil {
		parts = append(parts, content)
	}
	for _, encoded := range compressed.FindAll(text, -1) {
		raw := strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(string(encoded)), "=")
		if decoded, err := base64.RawStdEncoding.DecodeString(raw); err == nil {
			if content := gunzip(decoded); content != nil {
				parts = append(parts, content)
			}
		}
	}
	return parts
}

// gunzip returns the content of a compressed text, as far as it can be read.
func gunzip(text []byte) []byte {
	reader, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil
	}
	content, _ := io.ReadAll(io.LimitReader(reader, maxExpanded))
	return content
}
