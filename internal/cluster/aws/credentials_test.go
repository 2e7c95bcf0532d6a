package aws_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/internal/cluster/aws"
)

const (
	keyID     = "AKIAEXAMPLE"
	secretKey = "hunter2-secret-key"
	session   = "hunter2-session"
	identity  = "hunter2-identity"
	roleARN   = "arn:aws:iam::123456789012:role/capt"
)

func keys() map[string]string {
	return map[string]string{"AWS_ACCESS_KEY_ID": keyID, "AWS_SECRET_ACCESS_KEY": secretKey}
}

func TestFromEnv(t *testing.T) {
	ini := []byte("[default]\naws_access_key_id = " + keyID + "\naws_secret_access_key=" + secretKey + " # mine\nregion = eu-west-3\n")
	two := []byte("# users\n[work]\naws_access_key_id = A\naws_secret_access_key = " + secretKey + "\ns3 =\n  max_queue_size = 10\n[home]\naws_access_key_id = B\naws_secret_access_key = " + secretKey + "\n")
	chain := []byte("[profile top]\nrole_arn = arn:top\nsource_profile = middle\nregion = eu-west-3\n[profile middle]\nrole_arn = arn:middle\nsource_profile = base\n" +
		"[profile base]\naws_access_key_id = A\naws_secret_access_key = " + secretKey + "\n")
	tests := []struct {
		name   string
		env    map[string]string
		files  map[string][]byte
		text   string
		region string
		given  bool
		err    string
	}{
		{name: "nothing", text: "the manager's own"},
		{name: "keys", env: keys(), text: "access key", given: true},
		{name: "keys with a line break at the end", env: given(keys(), "AWS_ACCESS_KEY_ID", keyID+"\n"), text: "access key", given: true},
		{name: "a region", env: given(keys(), "AWS_REGION", "eu-west-1", "AWS_DEFAULT_REGION", "us-east-1"), region: "eu-west-1", given: true},
		{name: "a default region", env: map[string]string{"AWS_DEFAULT_REGION": "us-east-1"}, text: "the manager's own", region: "us-east-1"},
		{name: "no secret key", env: given(keys(), "AWS_SECRET_ACCESS_KEY", ""), err: "AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY"},
		{name: "no key id", env: given(keys(), "AWS_ACCESS_KEY_ID", ""), err: "AWS_SECRET_ACCESS_KEY is set without AWS_ACCESS_KEY_ID"},
		{name: "an invalid expiration", env: given(keys(), "AWS_CREDENTIAL_EXPIRATION", "soon"), err: "AWS_CREDENTIAL_EXPIRATION must be a time"},

		{
			name: "a token of the provider config", env: map[string]string{"AWS_ROLE_ARN": roleARN, "AWS_WEB_IDENTITY_TOKEN_FILE": "./token"},
			files: map[string][]byte{"token": []byte(identity + "\n")}, text: "web identity of the provider config", given: true,
		},
		{
			name: "an empty token", env: map[string]string{"AWS_ROLE_ARN": roleARN, "AWS_WEB_IDENTITY_TOKEN_FILE": "token"},
			files: map[string][]byte{"token": []byte(" \n")}, err: "file token is empty",
		},
		{
			name: "a token without a role", env: map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "token"},
			files: map[string][]byte{"token": []byte(identity)}, err: "without AWS_ROLE_ARN",
		},
		{name: "a role for the manager's token", env: map[string]string{"AWS_ROLE_ARN": roleARN}, text: "web identity of the manager"},

		{name: "a file that a provider block names", files: map[string][]byte{"aws.ini": ini, "notes": []byte("x")}, text: "access key", region: "eu-west-3", given: true},
		{name: "a file that a variable names", env: map[string]string{"AWS_SHARED_CREDENTIALS_FILE": "aws.ini"}, files: map[string][]byte{"aws.ini": ini, "other.ini": two}, text: "access key", region: "eu-west-3", given: true},
		{name: "keys over a file", env: keys(), files: map[string][]byte{"aws.ini": []byte("[")}, text: "access key", given: true},
		{name: "a profile of a file", env: map[string]string{"AWS_PROFILE": "home"}, files: map[string][]byte{"aws.ini": two}, text: "access key", given: true},
		{name: "no default profile", files: map[string][]byte{"aws.ini": two}, err: "profile default does not exist: set AWS_PROFILE to one of home, work"},
		{name: "a chain of roles", env: map[string]string{"AWS_CONFIG_FILE": "config", "AWS_PROFILE": "top"}, files: map[string][]byte{"config": chain}, text: "access key", region: "eu-west-3", given: true},
		{name: "two files", files: map[string][]byte{"b.ini": two, "a.ini": ini}, err: "the files a.ini, b.ini all contain access keys: set AWS_SHARED_CREDENTIALS_FILE to one of them"},
		{name: "a file elsewhere", env: map[string]string{"AWS_SHARED_CREDENTIALS_FILE": "/root/.aws/credentials"}, files: map[string][]byte{"credentials": ini}, err: "which the manager does not read"},
		{name: "a program", files: map[string][]byte{"a": append([]byte("[default]\ncredential_process = sh -c hunter2\n"), ini...)}, err: "credential_process is not supported"},
		{name: "a broken file", files: map[string][]byte{"a": append([]byte("[default\n"), ini...)}, err: "file a: line 1: ] is missing"},
		{name: "a file without sections", files: map[string][]byte{"a": []byte("\naws_access_key_id = hunter2")}, err: "file a: line 2 is not a setting of a profile"},
		{name: "half of the keys", files: map[string][]byte{"a": []byte("[x]\naws_access_key_id = A")}, err: "profile x requires aws_access_key_id and aws_secret_access_key"},
		{name: "a role without a source", files: map[string][]byte{"a": []byte("[x]\nrole_arn = arn:x\n# aws_access_key_id")}, err: "profile x has a role_arn without a source_profile"},
		{
			name:  "roles in a circle",
			files: map[string][]byte{"a": []byte("[default]\nrole_arn = arn:x\nsource_profile = y\n[y]\nrole_arn = arn:y\nsource_profile = default\n# aws_access_key_id")},
			err:   "profile default refers to itself through source_profile",
		},
		{name: "a profile of the manager", env: map[string]string{"AWS_PROFILE": "work"}, text: "profile of the manager"},
		{name: "an address to fetch from", env: map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1"}, err: "AWS_CONTAINER_CREDENTIALS_FULL_URI works only in a run"},

		{name: "an invalid endpoint", env: given(keys(), "AWS_ENDPOINT_URL_STS", "sts.example.com"), err: "AWS_ENDPOINT_URL_STS must be an address"},
		{name: "an endpoint with a password", env: given(keys(), "AWS_ENDPOINT_URL", "https://a:hunter2@sts.example.com"), err: "AWS_ENDPOINT_URL must be an address"},
		{name: "endpoints that are ignored", env: given(keys(), "AWS_ENDPOINT_URL_STS", "sts.example.com", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true"), given: true},
		{name: "an invalid value of FIPS", env: given(keys(), "AWS_USE_FIPS_ENDPOINT", "yes"), err: "AWS_USE_FIPS_ENDPOINT must be true or false"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)

			credentials, err := aws.FromEnv(tt.env, tt.files)

			if tt.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tt.err)))
				g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
				g.Expect(aws.KindOf(err)).To(Equal(aws.KindInvalid))
				g.Expect(credentials).To(Equal(aws.Credentials{}))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(credentials.String()).To(ContainSubstring(tt.text))
			g.Expect(credentials.Region()).To(Equal(tt.region))
			g.Expect(credentials.Given()).To(Equal(tt.given))
		})
	}
}

// holder has secrets in unexported fields, whose methods fmt does not call.
type holder struct {
	Public      any
	credentials aws.Credentials
	config      aws.Config
	token       aws.Token
	secret      aws.Secret
}

func TestSecrets_areNeverPrinted(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", keyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2-of-the-manager")
	env := given(keys(), "AWS_SESSION_TOKEN", session, "AWS_REGION", "eu-west-1")
	credentials, err := aws.FromEnv(env, nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	web, err := aws.FromEnv(map[string]string{"AWS_ROLE_ARN": roleARN, "AWS_WEB_IDENTITY_TOKEN_FILE": "t"}, map[string][]byte{"t": []byte(identity)})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	cfg := load(NewWithT(t), env, aws.Options{})
	token := aws.Token{Value: aws.NewSecret("hunter2-token")}

	values := map[string]any{
		"credentials": credentials, "pointer": &credentials, "web identity": web, "config": cfg, "config pointer": &cfg,
		"token": token, "token pointer": &token, "secret": token.Value,
		"list": []any{credentials, cfg, token}, "map": map[string]any{"c": credentials, "t": token},
		"holder":  holder{Public: credentials, credentials: credentials, config: cfg, token: token, secret: token.Value},
		"holders": []*holder{{credentials: web, config: cfg, token: token}},
	}
	for name, value := range values {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var seen []string
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10.3v", "%t"} {
				seen = append(seen, fmt.Sprintf(verb, value))
			}
			seen = append(seen, fmt.Sprint(value), fmt.Errorf("failing: %v", value).Error())
			asJSON, err := json.Marshal(value)
			g.Expect(err).NotTo(HaveOccurred())
			asYAML, err := yaml.Marshal(value)
			g.Expect(err).NotTo(HaveOccurred())
			seen = append(seen, string(asJSON), string(asYAML))
			for _, log := range loggers(&seen) {
				log.Info("Seen", "value", value)
				log.Error(fmt.Errorf("with %v", value), "Seen", "value", value)
			}
			for _, text := range seen {
				g.Expect(text).NotTo(ContainSubstring("hunter2"))
				// %x would show the bytes.
				g.Expect(text).NotTo(ContainSubstring(fmt.Sprintf("%x", "hunter2")))
				g.Expect(text).NotTo(ContainSubstring(fmt.Sprintf("%X", "hunter2")))
			}
			g.Expect(len(seen)).To(BeNumerically(">=", 22), "every logger has logged")
		})
	}
	NewWithT(t).Expect(fmt.Sprint(token.Value)).To(Equal("[hidden]"))
	NewWithT(t).Expect(token.Value.Reveal()).To(Equal("hunter2-token"))
}

// loggers returns the loggers that a manager may use.
func loggers(seen *[]string) []logr.Logger {
	sink := writer(func(text string) { *seen = append(*seen, text) })
	write := func(_, text string) { *seen = append(*seen, text) }
	return []logr.Logger{
		textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(sink))),
		funcr.New(write, funcr.Options{}),
		funcr.NewJSON(func(text string) { write("", text) }, funcr.Options{}),
		zap.New(zap.WriteTo(sink), zap.UseDevMode(false)),
		zap.New(zap.WriteTo(sink), zap.UseDevMode(true)),
	}
}

type writer func(string)

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

func TestSecrets_areNotPrintedByKlog(t *testing.T) {
	g := NewWithT(t)
	credentials, err := aws.FromEnv(keys(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	var seen []string
	klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(writer(func(text string) { seen = append(seen, text) })))))
	t.Cleanup(klog.ClearLogger)

	klog.InfoS("Seen", "value", credentials, "secret", aws.NewSecret(secretKey))
	klog.Infof("%v %+v %#v", credentials, &credentials, aws.NewSecret(secretKey))
	klog.Flush()

	g.Expect(seen).To(HaveLen(2))
	for _, text := range seen {
		g.Expect(text).NotTo(ContainSubstring("hunter2"))
		g.Expect(text).To(ContainSubstring("AWS credentials (access key of the provider config)"))
	}
}
