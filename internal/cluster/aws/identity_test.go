package aws

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws/awstest"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

// identities are the ways in which a manager gets its own AWS identity. Each of them
// works: with OwnIdentity the manager signs tokens for a template with the variables that
// the function returns.
var identities = map[string]func(t *testing.T, server *awstest.Server) map[string]string{
	"keys": func(t *testing.T, server *awstest.Server) map[string]string {
		t.Setenv("AWS_ACCESS_KEY_ID", server.Env()["AWS_ACCESS_KEY_ID"])
		t.Setenv("AWS_SECRET_ACCESS_KEY", server.Env()["AWS_SECRET_ACCESS_KEY"])
		return nil
	},
	"web identity": func(t *testing.T, server *awstest.Server) map[string]string {
		role := server.AddRole("manager")
		server.TrustToken("of-the-manager")
		t.Setenv("AWS_ROLE_ARN", role)
		t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", write(t, "of-the-manager"))
		return map[string]string{"AWS_ROLE_ARN": role}
	},
	"profiles": func(t *testing.T, server *awstest.Server) map[string]string {
		keys := "aws_access_key_id = " + server.Env()["AWS_ACCESS_KEY_ID"] + "\naws_secret_access_key = " + server.Env()["AWS_SECRET_ACCESS_KEY"] + "\n"
		file := write(t, "[default]\n"+keys+"[admin]\n"+keys)
		t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
		t.Setenv("AWS_CONFIG_FILE", file)
		return map[string]string{"AWS_PROFILE": "admin"}
	},
	"pod identity": func(t *testing.T, server *awstest.Server) map[string]string {
		agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"AccessKeyId":"` + server.Env()["AWS_ACCESS_KEY_ID"] + `","SecretAccessKey":"` + server.Env()["AWS_SECRET_ACCESS_KEY"] + `"}`))
		}))
		t.Cleanup(agent.Close)
		t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.URL)
		return nil
	},
}

func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// attemptsToBeTheManager are what authors of templates and provider configs write to act as
// the manager. MANAGER_TOKEN and MANAGER_CONFIG stand for files of the manager, AGENT for a
// server that must not be called, and PROGRAM for a file that a program would create.
var attemptsToBeTheManager = map[string]struct {
	env   map[string]string
	files map[string]string
}{
	"nothing":                              {},
	"a role":                               {env: map[string]string{"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/manager"}},
	"the manager's token":                  {env: map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "MANAGER_TOKEN"}},
	"a role with the manager's token":      {env: map[string]string{"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/manager", "AWS_WEB_IDENTITY_TOKEN_FILE": "MANAGER_TOKEN"}},
	"a token of Kubernetes":                {env: map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/secrets/kubernetes.io/serviceaccount/token", "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/any"}},
	"a profile":                            {env: map[string]string{"AWS_PROFILE": "admin"}},
	"the default profile":                  {env: map[string]string{"AWS_DEFAULT_PROFILE": "default"}},
	"a config file of the manager":         {env: map[string]string{"AWS_CONFIG_FILE": "MANAGER_CONFIG"}},
	"a config file of the manager, and id": {env: map[string]string{"AWS_CONFIG_FILE": "MANAGER_CONFIG", "AWS_PROFILE": "admin"}},
	"a credentials file of the manager":    {env: map[string]string{"AWS_SHARED_CREDENTIALS_FILE": "MANAGER_CONFIG"}},
	"a file outside":                       {env: map[string]string{"AWS_SHARED_CREDENTIALS_FILE": "../../root/.aws/credentials"}},
	"an address for credentials":           {env: map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "AGENT"}},
	"a path for credentials":               {env: map[string]string{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials"}},
	"a token for the agent":                {env: map[string]string{"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "MANAGER_TOKEN"}},
	"the metadata service":                 {env: map[string]string{"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": "AGENT"}},
	"blank keys":                           {env: map[string]string{"AWS_ACCESS_KEY_ID": " ", "AWS_SECRET_ACCESS_KEY": "\n"}},
	"half of the keys":                     {env: map[string]string{"AWS_SECRET_ACCESS_KEY": "x"}},
	"a session without keys":               {env: map[string]string{"AWS_SESSION_TOKEN": "x"}},
	"an empty token":                       {env: map[string]string{"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/manager", "AWS_WEB_IDENTITY_TOKEN_FILE": "token"}, files: map[string]string{"token": "\n"}},
	"a program":                            {env: map[string]string{"AWS_CONFIG_FILE": "aws"}, files: map[string]string{"aws": "[default]\ncredential_process = touch PROGRAM\n"}},
	"a program beside keys":                {files: map[string]string{"aws": "[default]\naws_access_key_id = a\naws_secret_access_key = b\ncredential_process = touch PROGRAM\n"}},
	"a program as the source":              {env: map[string]string{"AWS_CONFIG_FILE": "aws"}, files: map[string]string{"aws": "[default]\nrole_arn = arn:aws:iam::123456789012:role/manager\nsource_profile = p\n[profile p]\nCredential_Process=touch PROGRAM\n"}},
	"a token of a profile":                 {env: map[string]string{"AWS_CONFIG_FILE": "aws"}, files: map[string]string{"aws": "[default]\nrole_arn = arn:aws:iam::123456789012:role/manager\nweb_identity_token_file = MANAGER_TOKEN\n"}},
	"the identity of the pod":              {env: map[string]string{"AWS_CONFIG_FILE": "aws"}, files: map[string]string{"aws": "[default]\nrole_arn = arn:aws:iam::123456789012:role/manager\ncredential_source = EcsContainer\n"}},
	"the identity of the instance":         {env: map[string]string{"AWS_CONFIG_FILE": "aws"}, files: map[string]string{"aws": "[default]\nrole_arn = arn:aws:iam::123456789012:role/manager\ncredential_source = Ec2InstanceMetadata\n"}},
	"the environment of the manager":       {env: map[string]string{"AWS_CONFIG_FILE": "aws"}, files: map[string]string{"aws": "[default]\nrole_arn = arn:aws:iam::123456789012:role/manager\ncredential_source = Environment\n"}},
	"a profile of the manager as source":   {env: map[string]string{"AWS_CONFIG_FILE": "aws"}, files: map[string]string{"aws": "[default]\nrole_arn = arn:aws:iam::123456789012:role/manager\nsource_profile = admin\n"}},
	"a single sign-on":                     {env: map[string]string{"AWS_CONFIG_FILE": "aws"}, files: map[string]string{"aws": "[default]\nsso_session = s\nsso_account_id = 1\n[sso-session s]\nsso_start_url = AGENT\n"}},
	"an empty profile":                     {env: map[string]string{"AWS_CONFIG_FILE": "aws"}, files: map[string]string{"aws": "[default]\n"}},
	"a file without profiles":              {env: map[string]string{"AWS_CONFIG_FILE": "aws"}, files: map[string]string{"aws": ""}},
	"services of a profile":                {env: map[string]string{"AWS_CONFIG_FILE": "aws"}, files: map[string]string{"aws": "[default]\nservices = s\nendpoint_url = AGENT\n[services s]\nsts =\n  endpoint_url = AGENT\n"}},
}

// cloudCalls are all methods that call AWS.
var cloudCalls = map[string]func(t *testing.T, cloud Cloud, credentials *workspace.Credentials) error{
	"Token": func(t *testing.T, cloud Cloud, credentials *workspace.Credentials) error {
		_, err := cloud.Token(t.Context(), credentials, awstest.Region, "", Cluster{Name: "demo", Endpoint: "https://abc.example.com"})
		return err
	},
	"EnsureSpotRole": func(t *testing.T, cloud Cloud, credentials *workspace.Credentials) error {
		_, err := cloud.EnsureSpotRole(t.Context(), credentials, awstest.Region, "arn:aws:iam::123456789012:role/spoke")
		return err
	},
	"LookUpVPC": func(t *testing.T, cloud Cloud, credentials *workspace.Credentials) error {
		_, err := cloud.LookUpVPC(t.Context(), credentials, awstest.Region, "arn:aws:iam::123456789012:role/spoke", "vpc-1", "demo", nil)
		return err
	},
	"ListVPCUsers": func(t *testing.T, cloud Cloud, credentials *workspace.Credentials) error {
		_, err := cloud.ListVPCUsers(t.Context(), credentials, awstest.Region, "vpc-1")
		return err
	},
	"SweepLeftovers": func(t *testing.T, cloud Cloud, credentials *workspace.Credentials) error {
		_, err := cloud.SweepLeftovers(t.Context(), credentials, awstest.Region, LeftoverQuery{})
		return err
	},
}

// Without --aws-own-identity nothing that a template or a provider config names makes the
// manager call AWS as itself, read one of its files, run a program, or fetch credentials.
func TestOwnIdentity_isNotReachedByATemplate(t *testing.T) {
	for identity, prepare := range identities {
		t.Run(identity, func(t *testing.T) {
			g := NewWithT(t)
			server := awstest.New(t)
			t.Setenv("AWS_ENDPOINT_URL", server.URL)
			used := &workspace.Credentials{Env: prepare(t, server)}
			_, err := Cloud{OwnIdentity: true, Now: time.Now}.Token(t.Context(), used, awstest.Region, "", Cluster{Name: "demo"})
			g.Expect(err).NotTo(HaveOccurred(), "the manager has an identity")

			for name, attempt := range attemptsToBeTheManager {
				t.Run(name, func(t *testing.T) { attack(t, server, attempt.env, attempt.files) })
			}
		})
	}
}

// attack makes each call with credentials that a template or a provider config has.
func attack(t *testing.T, server *awstest.Server, env, files map[string]string) {
	g := NewWithT(t)
	var called atomic.Int64
	server.Before(func(string) { called.Add(1) })
	agent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	defer agent.Close()
	program := filepath.Join(t.TempDir(), "program")
	by := strings.NewReplacer("AGENT", agent.URL, "PROGRAM", program,
		"MANAGER_TOKEN", cmp.Or(os.Getenv(identityFileEnv), "/token"), "MANAGER_CONFIG", cmp.Or(os.Getenv(configFileEnv), "/config"))
	for from, credentials := range credentialsFrom(t, placed(env, by), placed(files, by)) {
		for call, run := range cloudCalls {
			g.Expect(run(t, Cloud{Now: time.Now}, credentials)).To(HaveOccurred(), "%s from %s", call, from)
		}
	}
	g.Expect(called.Load()).To(BeZero(), "no request is sent")
	g.Expect(program).NotTo(BeAnExistingFile())
}

// credentialsFrom returns the credentials that the manager reads from a provider config
// whose Secret has the variables, and from a template that has them.
func credentialsFrom(t *testing.T, env, files map[string]string) map[string]*workspace.Credentials {
	g := NewWithT(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "credentials"}, Data: map[string][]byte{}}
	var fromFiles, fromEnv []infrav1.ProviderCredential
	var variables []infrav1.EnvVar
	for name, content := range files {
		secret.Data[name] = []byte(content)
		fromFiles = append(fromFiles, infrav1.ProviderCredential{Filename: name, SecretRef: infrav1.KeyReference{Name: secret.Name, Key: name}})
	}
	for name, value := range env {
		secret.Data[name] = []byte(value)
		fromEnv = append(fromEnv, infrav1.ProviderCredential{Env: name, SecretRef: infrav1.KeyReference{Name: secret.Name, Key: name}})
		variables = append(variables, infrav1.EnvVar{Name: name, Value: &value})
	}
	read := func(credentials []infrav1.ProviderCredential, variables []infrav1.EnvVar) *workspace.Credentials {
		config := &infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "aws"}}
		config.Spec.Credentials = credentials
		template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "eks"}}
		template.Spec.Template.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: config.Name}
		template.Spec.Template.Spec.ForProvider.Env = variables
		var c client.Client = fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(secret, config).Build()
		found, err := (&workspace.Keeper{Client: c, Live: c}).Credentials(t.Context(), "team", template)
		g.Expect(err).NotTo(HaveOccurred())
		return found
	}
	return map[string]*workspace.Credentials{
		"a template":        read(fromFiles, variables),
		"a provider config": read(append(fromFiles, fromEnv...), nil),
	}
}

// placed returns values in which placeholders are replaced.
func placed(values map[string]string, by *strings.Replacer) map[string]string {
	replaced := map[string]string{}
	for name, value := range values {
		replaced[name] = by.Replace(value)
	}
	return replaced
}
