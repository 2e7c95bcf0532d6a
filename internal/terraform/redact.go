package terraform

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"hash/maphash"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// Mask replaces secrets. The tool prints the same.
	Mask = "(sensitive value)"
	// shortestSecret is the length of the shortest value that is masked in a log. Masking
	// shorter values would hide ordinary words.
	shortestSecret = 6
	// window is the length of the part of a longer secret that is recognised. So parts
	// are masked as well: encoded values are often broken into lines.
	window = 16
)

// Redactor masks secrets in texts, in the encodings that tools print. It is safe for
// concurrent use.
type Redactor struct {
	seed maphash.Seed
	// exact are the hashes of encoded secrets that are shorter than the window, by
	// length. windows are those of all parts of the longer ones.
	exact   [window]map[uint64]bool
	windows map[uint64]bool
}

// NewRedactor returns a redactor of the secrets, and of each line of a secret with
// several lines.
func NewRedactor(secrets ...string) *Redactor {
	r := &Redactor{seed: maphash.MakeSeed(), windows: map[uint64]bool{}}
	for _, secret := range secrets {
		for _, part := range append([]string{secret}, strings.Split(secret, "\n")...) {
			if part = strings.TrimSpace(part); len(part) < shortestSecret {
				continue
			}
			for _, encoded := range Encodings(part) {
				r.add(encoded)
			}
		}
		if len(secret) >= shortestSecret {
			r.addBinary(secret)
		}
	}
	return r
}

// addEncoded adds the encoded forms of a text whose plain form is not a secret as a
// whole, for example a file with credentials.
func (r *Redactor) addEncoded(text string) {
	if len(text) >= window {
		r.addBinary(text)
		r.addBinary(strings.TrimSpace(text))
	}
}

func (r *Redactor) addBinary(text string) {
	for _, encoded := range binaryEncodings(text) {
		r.add(encoded)
	}
}

func (r *Redactor) add(text string) {
	switch n := len(text); {
	case n < shortestSecret:
	case n < window:
		if r.exact[n] == nil {
			r.exact[n] = map[uint64]bool{}
		}
		r.exact[n][maphash.String(r.seed, text)] = true
	default:
		for i := 0; i+window <= n; i++ {
			r.windows[maphash.String(r.seed, text[i:i+window])] = true
		}
	}
}

// Encodings returns a text as it is, and as tools print it: escaped as in JSON, HCL, URLs
// and shells, in hexadecimal and in base64.
func Encodings(text string) []string {
	inJSON, inHTML := escapeJSON(text), unquoted(marshal(text))
	all := []string{
		text, inJSON, escapeJSON(inJSON), inHTML, escapeJSON(inHTML),
		unquoted(strconv.Quote(text)), unquoted(strconv.QuoteToASCII(text)),
		strings.NewReplacer("${", "$${", "%{", "%%{").Replace(inJSON),
		url.QueryEscape(text), url.PathEscape(text), strings.ReplaceAll(url.QueryEscape(text), "+", "%20"), lowerEscapes(url.QueryEscape(text)),
		strings.ReplaceAll(text, "'", `'\''`),
	}
	slices.Sort(all)
	return append(slices.Compact(all), binaryEncodings(text)...)
}

// binaryEncodings returns a text in hexadecimal and in base64. In base64 a text looks
// different at each of three positions within another one.
func binaryEncodings(text string) []string {
	inHex := hex.EncodeToString([]byte(text))
	all := []string{inHex, strings.ToUpper(inHex)}
	for offset := range 3 {
		padded := append(make([]byte, offset), text...)
		// The bits of these characters are all of the text.
		first, last := (offset*8+5)/6, len(padded)*8/6
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			all = append(all, encoding.EncodeToString(padded)[first:last])
		}
	}
	return all
}

func unquoted(text string) string { return text[1 : len(text)-1] }

func marshal(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil { // Strings always marshal.
		return strconv.Quote(text)
	}
	return string(encoded)
}

// escapeJSON returns a text as in a JSON string in which < and > are not escaped.
func escapeJSON(text string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		return text
	}
	return unquoted(strings.TrimSuffix(out.String(), "\n"))
}

var urlEscape = regexp.MustCompile(`%[0-9A-F]{2}`)

func lowerEscapes(text string) string { return urlEscape.ReplaceAllStringFunc(text, strings.ToLower) }

var (
	// userInfo matches the password, or a long user name, of a URL.
	userInfo = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)(?:[^/\s@"'` + "`" + `]*:[^/\s@"'` + "`" + `]*|[^/\s@:"'` + "`" + `]{16,})@`)
	// secretParameter matches the value of a URL's parameter that is a credential.
	secretParameter = regexp.MustCompile(`(?i)([?&](?:sshkey|sig|password|[a-z0-9_-]*(?:token|signature|secret))=)[^&\s"'` + "`" + `]+`)
)

// Replace masks the secrets in a text, and the credentials of URLs.
func (r *Redactor) Replace(text string) string {
	if strings.Contains(text, "://") {
		text = userInfo.ReplaceAllString(text, "${1}"+Mask+"@")
		text = secretParameter.ReplaceAllString(text, "${1}"+Mask)
	}
	var out strings.Builder
	written := 0
	for i := 0; i+shortestSecret <= len(text); {
		n := r.match(text[i:])
		if n == 0 {
			i++
			continue
		}
		end := i + n
		// The next one may overlap it or follow it.
		for next := i + 1; next <= end; next++ {
			if more := r.match(text[next:]); more > 0 {
				end = max(end, next+more)
			}
		}
		start := i + len(text[i:end]) - len(strings.TrimLeft(text[i:end], " \t\n"))
		out.WriteString(text[written:start])
		out.WriteString(Mask)
		i, written = end, end
	}
	if written == 0 {
		return text
	}
	out.WriteString(text[written:])
	return out.String()
}

// match returns the length of the secret at the start of a text, or 0.
func (r *Redactor) match(text string) int {
	if len(r.windows) > 0 && len(text) >= window && r.windows[maphash.String(r.seed, text[:window])] {
		return window
	}
	for n := min(window-1, len(text)); n >= shortestSecret; n-- {
		if r.exact[n] != nil && r.exact[n][maphash.String(r.seed, text[:n])] {
			return n
		}
	}
	return 0
}

// Redactor returns a redactor of all secrets of the request.
func (r *Request) Redactor() *Redactor {
	redactor := NewRedactor(r.Secrets()...)
	for request := r; request != nil; request = request.From {
		for name, content := range request.Files {
			if isCredentials(name) {
				redactor.addEncoded(string(content))
			}
		}
		redactor.addEncoded(request.Encryption)
	}
	return redactor
}

// SecretSize returns about how many bytes of secrets the request has. A redactor needs
// some hundred bytes of memory for each of them.
func (r *Request) SecretSize() int {
	size := 0
	for _, secret := range r.Secrets() {
		size += len(secret)
	}
	for request := r; request != nil; request = request.From {
		size += len(request.Encryption)
		for name, content := range request.Files {
			if isCredentials(name) {
				size += len(content)
			}
		}
	}
	return size
}

// Secrets returns the values that must not be shown. A redactor ignores short ones.
func (r *Request) Secrets() []string {
	var secrets []string
	add := func(values ...string) {
		for _, value := range values {
			if !slices.Contains(noSecrets, strings.TrimSpace(value)) {
				secrets = append(secrets, value)
			}
		}
	}
	for _, name := range r.SecretEnv {
		add(r.Env[name])
		add(inValue(r.Env[name])...)
	}
	for _, name := range r.SecretVariables {
		add(inValue(string(r.Variables[name]))...)
	}
	for name, content := range r.Files {
		if isCredentials(name) {
			add(inFile(string(content))...)
		}
	}
	for i := range r.Module.Auth {
		add(r.Module.Auth[i].secrets()...)
	}
	add(assigned(r.Encryption, true)...)
	add(assigned(r.Backend.HCL, false)...)
	for _, arg := range r.InitArgs {
		_, setting, _ := strings.Cut(arg, "-backend-config=")
		add(assigned(setting, false)...)
	}
	slices.Sort(secrets)
	secrets = slices.Compact(secrets)
	if r.From != nil {
		secrets = append(secrets, r.From.Secrets()...)
	}
	return secrets
}

// isCredentials reports whether a file is not one that the engine itself or the author of
// the provider configuration writes.
func isCredentials(name string) bool { return !IsConfig(name) }

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// ShortSecrets returns the secrets that a redactor ignores. They are masked where they are a whole
// value or a word of one.
func (r *Request) ShortSecrets() []string {
	return slices.DeleteFunc(r.Secrets(), func(secret string) bool { return len(strings.TrimSpace(secret)) >= shortestSecret })
}

// noSecrets are values that anyone can guess. To mask them would only hide what a plan does.
var noSecrets = []string{"", "true", "false", "null"}

// inValue returns the secrets in a value: the strings and numbers of a JSON value, and those in a
// string that the runner reads as a list or an object.
func inValue(value string) []string {
	decoder := json.NewDecoder(strings.NewReader(value))
	decoder.UseNumber()
	var content any
	if !json.Valid([]byte(value)) || decoder.Decode(&content) != nil {
		return nested(value)
	}
	return leaves(content)
}

func leaves(content any) []string {
	var secrets []string
	switch content := content.(type) {
	case map[string]any:
		for _, element := range content {
			secrets = append(secrets, leaves(element)...)
		}
	case []any:
		for _, element := range content {
			secrets = append(secrets, leaves(element)...)
		}
	case string:
		secrets = append(secrets, content)
		if text := strings.TrimSpace(content); text != "" && strings.ContainsAny(text[:1], `{[`) {
			secrets = append(secrets, inValue(text)...)
		}
	case json.Number:
		secrets = append(secrets, content.String())
	}
	return secrets
}

// nested returns the strings in a value of HCL.
func nested(text string) []string {
	text = strings.TrimSpace(text)
	if text == "" || !strings.ContainsAny(text[:1], `{["`) {
		return nil
	}
	var values []string
	for _, literal := range quoted.FindAllString(text, -1) {
		value := unquoted(literal)
		var decoded string
		if json.Unmarshal([]byte(literal), &decoded) == nil {
			value = strings.NewReplacer("$${", "${", "%%{", "%{").Replace(decoded)
		}
		values = append(values, value)
	}
	return values
}

var assignment = regexp.MustCompile(`(?m)^[\s{,]*"?([A-Za-z0-9_.-]+)"?\s*[=:]\s*(.+?)[\s,}]*$`)

// inFile returns the secrets in a file with credentials: all of it, if it has no
// settings, else the values that look like credentials.
func inFile(text string) []string {
	if json.Valid([]byte(text)) {
		// One setting per line.
		var indented bytes.Buffer
		if json.Indent(&indented, []byte(text), "", " ") == nil {
			text = indented.String()
		}
	}
	if !assignment.MatchString(text) || strings.Contains(text, "-----BEGIN") && !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return append([]string{text}, assigned(text, false)...)
	}
	return assigned(text, false)
}

// assigned returns the values of settings whose names or values are those of secrets, or
// of all settings with a quoted value.
func assigned(text string, all bool) []string {
	var values []string
	for _, match := range assignment.FindAllStringSubmatch(text, -1) {
		name, value := match[1], match[2]
		isQuoted := strings.HasPrefix(value, `"`)
		if isQuoted {
			value = strings.Join(nested(value), "\n")
		}
		if all && isQuoted || isSecretName(name) || looksRandom(value) {
			values = append(values, strings.Trim(value, `'`))
		}
	}
	return values
}

var secretName = regexp.MustCompile(`(?i)secret|passw|passphrase|token|private|credential|api_?key|access_?key|client_?key|_key$|_pass$|sas|conn_?str|auth`)

func isSecretName(name string) bool { return secretName.MatchString(name) }

var random = regexp.MustCompile(`^[A-Za-z0-9+/=_.-]{20,}$`)

// looksRandom reports whether a value has lower-case and upper-case letters and digits
// without spaces, like a key.
func looksRandom(value string) bool {
	return random.MatchString(value) && strings.ContainsAny(value, "0123456789") && strings.ToLower(value) != value && strings.ToUpper(value) != value
}

// Redact masks secrets in the texts of a result. Outputs are not texts: they go to a
// Secret, and the status has only those that are not sensitive.
func (r *Result) Redact(redactor *Redactor) {
	for i := range r.Diagnostics {
		d := &r.Diagnostics[i]
		d.Summary, d.Detail, d.Address = redactor.Replace(d.Summary), redactor.Replace(d.Detail), redactor.Replace(d.Address)
	}
	for i := range r.Violations {
		v := &r.Violations[i]
		v.Message = redactor.Replace(v.Message)
		for j, address := range v.Resources {
			v.Resources[j] = redactor.Replace(address)
		}
	}
	r.CommandOutput = redactor.Replace(r.CommandOutput)
}
