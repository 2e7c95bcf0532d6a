package job

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws/awstest"
	"github.com/appthrust/capt/internal/testenv"
)

const (
	identityModule = `
terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}
data "aws_caller_identity" "this" {}
output "greeting" { value = data.aws_caller_identity.this.arn }
`
	// agentAddress is the address of the agent of EKS Pod Identity on every node.
	agentAddress = "169.254.170.23"

	irsaAudience, podIdentityAudience = "sts.amazonaws.com", "pods.eks.amazonaws.com"
)

// Runs with examples/provider-config-aws-identities.yaml have the identity in AWS that it
// promises. Admission policies do what EKS's webhook does to pods, and an agent on the
// node's address what that of Pod Identity does. Both verify the token of the pod.
func TestManager_runsJobsWithIdentitiesOfAWS(t *testing.T) {
	h := newHarness(t)
	account := awstest.New(t)
	account.AddRole("capt")
	account.TrustTokens(func(token string) bool { return h.isTokenOf(token, irsaAudience, "capt-runs") })
	sts := h.serveAWS(account)
	h.serveAgent(account)
	h.create(
		injection("irsa", "capt-runs", irsaAudience, "/var/run/secrets/eks.amazonaws.com/serviceaccount", map[string]string{
			"AWS_ROLE_ARN": "arn:aws:iam::" + account.Account + ":role/capt", "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/secrets/eks.amazonaws.com/serviceaccount/token",
		}), binding("irsa"),
		injection("pod-identity", "capt-runs-pod-identity", podIdentityAudience, "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount", map[string]string{
			"AWS_CONTAINER_CREDENTIALS_FULL_URI":     "http://" + agentAddress + "/v1/credentials",
			"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount/token",
		}), binding("pod-identity"),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mirror"}, Data: map[string]string{"mirror.tfrc": mirrorConfig}},
	)
	h.provideVolume("providers", h.awsMirror(), corev1.ReadOnlyMany)
	names := h.createIdentities(account, sts)
	h.Expect(names).To(ConsistOf("aws-irsa", "aws-pod-identity", "aws-session"))

	for _, name := range names {
		h.create(apply(name, func(s *infrav1.WorkspaceTemplateApplySpec) { s.TemplateRef.Name, s.Variables = name, nil }))
	}
	for _, name := range names {
		h.waitMessage(name, infrav1.ReadyCondition, HavePrefix("True"))
		output := h.get(name).Status.Outputs["greeting"]
		h.Expect(output.String()).To(HavePrefix("arn:aws:sts::"+account.Account+":assumed-role/capt/"), name)
	}
	h.Expect(account.Calls("AssumeRoleWithWebIdentity")).To(BeNumerically(">", 0))
}

// createIdentities creates the objects of the example, whose runs find AWS at an address,
// and a template for each provider config. It returns their names.
func (h *harness) createIdentities(account *awstest.Server, sts string) []string {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.found(testenv.Root()), "examples", "provider-config-aws-identities.yaml"))
	h.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, obj := range h.decode(string(text)) {
		switch example := obj.(type) {
		case *corev1.Secret:
			keys := account.Session("capt", "workstation")
			example.StringData = map[string]string{"accessKeyID": keys.AccessKeyID, "secretAccessKey": keys.SecretAccessKey, "sessionToken": keys.SessionToken}
		case *infrav1.WorkspaceProviderConfig:
			names = append(names, example.Name)
			if example.Spec.Runner == nil {
				example.Spec.Runner = &infrav1.RunnerConfig{}
			}
			runner := example.Spec.Runner
			runner.Env = []infrav1.RunnerEnvVar{
				{Name: "AWS_ENDPOINT_URL_STS", Value: sts}, {Name: "AWS_EC2_METADATA_DISABLED", Value: "true"}, {Name: "TF_CLI_CONFIG_FILE", Value: "/etc/terraform/mirror.tfrc"},
			}
			runner.Volumes = []infrav1.RunnerVolume{
				{Name: "mirror", ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "mirror"}}},
				{Name: "providers", PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "providers", ReadOnly: true}},
			}
			runner.VolumeMounts = []infrav1.RunnerVolumeMount{{Name: "mirror", MountPath: "/etc/terraform", ReadOnly: true}, {Name: "providers", MountPath: "/providers", ReadOnly: true}}
			template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Name: example.Name}}
			template.Spec.Template.Spec = infrav1.WorkspaceSpec{
				ForProvider:       infrav1.ModuleParameters{Source: infrav1.ModuleSourceInline, Module: identityModule},
				ProviderConfigRef: &infrav1.LocalReference{Name: example.Name},
			}
			h.create(template)
		}
		h.create(obj)
	}
	return names
}

// isTokenOf reports whether the API server issued a token for an audience and a service
// account of the namespace.
func (h *harness) isTokenOf(token, audience, name string) bool {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{audience}}}
	err := h.env.Client.Create(h.ctx, review)
	return err == nil && review.Status.Authenticated && slices.Contains(review.Status.Audiences, audience) &&
		review.Status.User.Username == "system:serviceaccount:"+h.namespace+":"+name
}

// serveAWS makes AWS reachable for pods, and returns its address.
func (h *harness) serveAWS(account *awstest.Server) string {
	h.t.Helper()
	target, err := url.Parse(account.URL)
	h.Expect(err).NotTo(HaveOccurred())
	// Signatures are for the address that clients use.
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	return "http://" + h.listen(h.env.Node().Address+":0", proxy)
}

// serveAgent serves the agent of Pod Identity.
func (h *harness) serveAgent(account *awstest.Server) {
	h.t.Helper()
	h.Expect(exec.Command("ip", "addr", "replace", agentAddress+"/32", "dev", "lo").Run()).To(Succeed())
	h.t.Cleanup(func() { _ = exec.Command("ip", "addr", "del", agentAddress+"/32", "dev", "lo").Run() })
	h.listen(agentAddress+":80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/credentials" || !h.isTokenOf(strings.TrimSpace(r.Header.Get("Authorization")), podIdentityAudience, "capt-runs-pod-identity") {
			http.Error(w, `{"message":"the token is not one of a pod with an association"}`, http.StatusBadRequest)
			return
		}
		keys := account.Session("capt", "eks-management-run")
		_ = json.NewEncoder(w).Encode(map[string]string{
			"AccessKeyId": keys.AccessKeyID, "SecretAccessKey": keys.SecretAccessKey, "Token": keys.SessionToken,
			"AccountId": account.Account, "Expiration": keys.Expires.UTC().Format(time.RFC3339),
		})
	}))
}

// listen serves at an address and returns it with its port.
func (h *harness) listen(address string, handler http.Handler) string {
	h.t.Helper()
	listener, err := net.Listen("tcp", address)
	h.Expect(err).NotTo(HaveOccurred())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	h.t.Cleanup(func() { _ = server.Shutdown(context.Background()) })
	return listener.Addr().String()
}

// awsMirror returns a directory with the AWS provider.
func (h *harness) awsMirror() string {
	h.t.Helper()
	dir := h.directory(0)
	const providerVersion = "6.47.1"
	at := filepath.Join(dir, "registry.opentofu.org", "hashicorp", "aws", providerVersion, goruntime.GOOS+"_"+goruntime.GOARCH)
	h.Expect(os.MkdirAll(at, 0o755)).To(Succeed())
	program, err := os.ReadFile(h.found(testenv.Part("terraform-provider-aws")))
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(os.WriteFile(filepath.Join(at, "terraform-provider-aws_v"+providerVersion), program, 0o755)).To(Succeed())
	return dir
}

// injection returns a policy that gives the pods of a service account a token and variables.
func injection(name, account, audience, directory string, env map[string]string) *admissionv1.MutatingAdmissionPolicy {
	patches := []string{
		`JSONPatch{op: "add", path: "/spec/volumes/-", value: Object.spec.volumes{name: "aws-token", projected: Object.spec.volumes.projected{
  sources: [Object.spec.volumes.projected.sources{serviceAccountToken: Object.spec.volumes.projected.sources.serviceAccountToken{
    audience: "` + audience + `", expirationSeconds: 3600, path: "token"}}]}}}`,
		`JSONPatch{op: "add", path: "/spec/containers/0/volumeMounts/-", value: Object.spec.containers.volumeMounts{name: "aws-token", mountPath: "` + directory + `", readOnly: true}}`,
	}
	for _, key := range slices.Sorted(maps.Keys(env)) {
		patches = append(patches, `JSONPatch{op: "add", path: "/spec/containers/0/env/-", value: Object.spec.containers.env{name: "`+key+`", value: "`+env[key]+`"}}`)
	}
	return &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail), ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}}}},
			MatchConditions: []admissionv1.MatchCondition{{Name: "account", Expression: `object.spec.serviceAccountName == "` + account + `"`}},
			Mutations: []admissionv1.Mutation{{
				PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: "[" + strings.Join(patches, ",\n") + "]"},
			}},
		},
	}
}

func binding(policy string) *admissionv1.MutatingAdmissionPolicyBinding {
	return &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: policy},
	}
}
