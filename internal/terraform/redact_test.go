package terraform

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// forms returns a secret as tools may print it.
func forms(secret string) map[string]string {
	inJSON, _ := json.Marshal(secret)
	twice, _ := json.Marshal(string(inJSON))
	all := map[string]string{
		"plain": secret, "quoted": strconv.Quote(secret), "JSON": string(inJSON), "JSON in JSON": string(twice),
		"query": url.QueryEscape(secret), "path": url.PathEscape(secret), "hex": hex.EncodeToString([]byte(secret)),
		"HEX": strings.ToUpper(hex.EncodeToString([]byte(secret))), "shell": "'" + strings.ReplaceAll(secret, "'", `'\''`) + "'",
	}
	for offset, prefix := range []string{"", "x", "xy"} {
		for name, encoding := range map[string]*base64.Encoding{"std": base64.StdEncoding, "url": base64.URLEncoding} {
			all["base64 "+name+" at "+strconv.Itoa(offset)] = encoding.EncodeToString([]byte(prefix + secret + "z"))
		}
	}
	return all
}

// leaks reports whether a text has a part of the secret, in any form, from which it can
// be recovered.
func leaks(text, secret string) bool {
	if strings.Contains(text, secret) {
		return true
	}
	for name, encoded := range forms(secret) {
		if strings.HasPrefix(name, "base64") {
			// The first and the last characters also depend on what is around.
			encoded = encoded[4 : len(encoded)-4]
		} else {
			encoded = strings.Trim(encoded, `"'\`)
		}
		if len(encoded) >= 4 && strings.Contains(text, encoded) {
			return true
		}
	}
	return false
}

func TestRedactor_masksEveryForm(t *testing.T) {
	for _, secret := range []string{"s3cr3t", "p@ss/w0rd+<&>", `quo"te\back'slash`, "ünïcödé-sécret", "a long secret of many words, with ${dollar}", strings.Repeat("k3Y+/", 60)} {
		redactor := NewRedactor(secret)
		for name, form := range forms(secret) {
			text := redactor.Replace("before " + form + " after")
			NewWithT(t).Expect(leaks(text, secret)).To(BeFalse(), "%s of %q: %s", name, secret, text)
			NewWithT(t).Expect(text).To(And(HavePrefix("before "), HaveSuffix(" after"), ContainSubstring(Mask)), "%s of %q", name, secret)
		}
	}
}

func TestRedactor_masksWrappedBase64(t *testing.T) {
	secret := strings.Repeat("0123456789abcdef", 20)
	encoded := base64.StdEncoding.EncodeToString([]byte("key: " + secret))
	redactor := NewRedactor(secret)
	for start := 0; start < len(encoded); start += 76 {
		line := encoded[start:min(start+76, len(encoded))]
		NewWithT(t).Expect(len(strings.ReplaceAll(redactor.Replace(line), Mask, ""))).To(BeNumerically("<=", 12), line)
	}
}

func TestRedactor_masksAdjacentSecrets(t *testing.T) {
	redactor := NewRedactor("first-secret", "second-secret")
	NewWithT(t).Expect(redactor.Replace("first-secretsecond-secret, first-secret")).To(Equal(Mask + ", " + Mask))
}

func TestRedactor_masksCredentialsOfURLs(t *testing.T) {
	for text, want := range map[string]string{
		"git::https://user:pa55@example.com/a.git?ref=v1":       "git::https://(sensitive value)@example.com/a.git?ref=v1",
		"https://ghp_0123456789abcdefghij@github.com/a":         "https://(sensitive value)@github.com/a",
		"ssh://git@github.com/a.git":                            "ssh://git@github.com/a.git",
		"git::ssh://git@h/a?sshkey=LS0tLS1CRUdJTg&ref=v1":       "git::ssh://git@h/a?sshkey=(sensitive value)&ref=v1",
		"https://b.s3.amazonaws.com/x?X-Amz-Signature=0a1b&y=1": "https://b.s3.amazonaws.com/x?X-Amz-Signature=(sensitive value)&y=1",
		"see https://example.com/a?b=c and mail a@example.com":  "see https://example.com/a?b=c and mail a@example.com",
	} {
		NewWithT(t).Expect(NewRedactor().Replace(text)).To(Equal(want))
	}
}

func TestRequest_Redactor_masksAllSources(t *testing.T) {
	request := &Request{
		Env: map[string]string{
			"API_KEY": "of-env-1111", "NESTED": `{ user = "admin-2222", list = ["deep-\"3333\""] }`, "REGION": "eu-central-1",
		},
		SecretEnv: []string{"API_KEY", "NESTED"},
		Variables: map[string]json.RawMessage{
			"object": json.RawMessage(`{"a":[{"b":"of-variable-4444"}]}`), "text": json.RawMessage(`"{ a = [\"of-text-eeee\"] }"`),
			"number": json.RawMessage(`123456789012`), "plain": json.RawMessage(`"plain-value"`),
		},
		SecretVariables: []string{"object", "text", "number"},
		Files: map[string][]byte{
			"credentials.ini": []byte("[default]\naws_access_key_id = AKIA5555EXAMPLE55\naws_secret_access_key = s/ecret+6666\nregion = eu-central-1\n"),
			"token":           []byte("of-file-7777\n"),
			"account.json":    []byte(`{"type":"service_account","private_key":"-----BEGIN PRIVATE KEY-----\nMIIE8888abcd\n-----END PRIVATE KEY-----\n","project_id":"my-project"}`),
			"key.pem":         []byte("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIE9999wxyzMIIE\n-----END RSA PRIVATE KEY-----\n"),
			"main.tf":         []byte(`provider "aws" { alias = "not-a-secret-in-tf" }`),
		},
		Encryption: "key_provider \"pbkdf2\" \"capt\" {\n  passphrase = \"correct horse aaaa\"\n}\n",
		Backend:    Backend{Type: "s3", HCL: "bucket = \"my-bucket-name\"\nkey = \"path/of.tfstate\"\nsecret_key = \"of-backend-bbbb\"\n"},
		InitArgs:   []string{"-backend-config=access_key=of-args-cccc"},
		From:       &Request{Backend: Backend{HCL: `token = "of-move-dddd"`}},
	}
	redactor := request.Redactor()
	for _, secret := range []string{
		"of-env-1111", "admin-2222", `deep-"3333"`, "of-variable-4444", "of-text-eeee", "123456789012", "s/ecret+6666", "of-file-7777", "MIIE8888abcd", "MIIE9999wxyzMIIE",
		"correct horse aaaa", "of-backend-bbbb", "of-args-cccc", "of-move-dddd",
	} {
		for name, form := range forms(secret) {
			NewWithT(t).Expect(leaks(redactor.Replace("< "+form+" >"), secret)).To(BeFalse(), "%s of %s", name, secret)
		}
	}
	file := string(request.Files["credentials.ini"])
	NewWithT(t).Expect(redactor.Replace(base64.StdEncoding.EncodeToString([]byte(file)))).To(And(HavePrefix(Mask), HaveLen(len(Mask)+2)), "a whole file, but its last bits")
	for _, plain := range []string{"eu-central-1", "plain-value", "my-bucket-name", "path/of.tfstate", "my-project", "service_account", "not-a-secret-in-tf", "[default]"} {
		NewWithT(t).Expect(redactor.Replace(plain)).To(Equal(plain))
	}
}

func FuzzRedactor(f *testing.F) {
	f.Add("s3cr3t-value", "before ", " after", byte(0))
	f.Add(`a"b\c'd${e}`, "x", "", byte(5))
	f.Add("üöä ßßß", "://", "@", byte(9))
	f.Fuzz(func(t *testing.T, secret, before, after string, form byte) {
		if len(strings.TrimSpace(secret)) < shortestSecret || strings.TrimSpace(secret) != secret || strings.ToValidUTF8(secret, "") != secret {
			t.Skip()
		}
		all := forms(secret)
		names := []string{"plain", "quoted", "JSON", "JSON in JSON", "query", "path", "hex", "HEX", "shell", "base64 std at 0", "base64 std at 1", "base64 std at 2", "base64 url at 0", "base64 url at 1", "base64 url at 2"}
		text := before + all[names[int(form)%len(names)]] + after
		redacted := NewRedactor(secret).Replace(text)
		if leaks(redacted, secret) && !leaks(Mask, secret) && !leaks(before+Mask+after, secret) {
			t.Errorf("%q in %q became %q", secret, text, redacted)
		}
	})
}
