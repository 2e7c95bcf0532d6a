package aws

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/cluster/aws/awstest"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

// administratorCalls are what the reader of docs/aws.md does as an administrator.
var administratorCalls = []string{
	"iam:CreateUser", "iam:AttachUserPolicy", "iam:CreateAccessKey", "iam:DetachUserPolicy", "iam:DeleteAccessKey", "iam:DeleteUser",
	"iam:ListGroupsForUser", "iam:CreatePolicy", "iam:GetPolicy", "iam:GetPolicyVersion", "iam:ListPolicyVersions", "iam:DeletePolicy", "tag:GetResources",
}

// between are commands after the block of an index that the reader does not run: they
// stand for parts of the page that the test replaces.
func between(e *emulator, account *awstest.Server) map[int]string {
	keys := account.Env()
	return map[int]string{
		// Only the keys of the fake of STS are accepted by the API server.
		1: fmt.Sprintf(`CREATED=$KEY; KEY='{"AccessKey":{"AccessKeyId":%q,"SecretAccessKey":%q}}'`, keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"]),
		// Runs reach the emulator.
		2: `kubectl patch secret aws-credentials -p '{"stringData":{"endpoint":"` + e.url + `"}}'
kubectl patch workspaceproviderconfig aws --type=json -p '[{"op":"add","path":"/spec/credentials/-","value":{"env":"AWS_ENDPOINT_URL","secretRef":{"name":"aws-credentials","key":"endpoint"}}}]'`,
		// No pods run here, so Flux installs no charts. What needs no Flux is installed.
		// kubectl fails at once if two objects do not exist yet.
		7: `for object in namespace/flux-system storageclass/gp3 deployment/source-controller deployment/helm-controller; do
  kubectl wait --for=create --timeout=5m --namespace flux-system "$object"
done`,
		9: `KEY=$CREATED`,
	}
}

// The commands of docs/aws.md, in one shell, with the emulator in place of AWS and a local
// management cluster in place of kind.
func TestDocs_leadFromAnAccountToAClusterAndBack(t *testing.T) {
	needsEmulator(t)
	for _, program := range []string{"aws", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("the page needs %s: install it (%v)", program, err)
		}
	}
	initial, err := kubeversion.Parse(kubeversion.EKSDefault)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	account := awstest.New(t)
	server := startAPIServer(t, awstest.NewAuthenticator(t, account, "demo"), initial.String())
	e := startEmulator(t, "-cluster-endpoint", server.endpoint, "-cluster-ca", server.ca)
	e.administrator = administratorCalls
	account.URL = e.url
	env, err := sharedEnvironment()
	e.Expect(err).NotTo(HaveOccurred())
	before := e.resources()

	p := openPage(t, env.Kubeconfig, e.settings())
	// The address of the reader, as AWS sees it.
	e.Expect(os.WriteFile(filepath.Join(p.home, "bin", "curl"), []byte("#!/bin/sh\necho 203.0.113.7\n"), 0o755)).To(Succeed())
	p.read("aws")
	e.Expect(len(p.create)+len(p.remove)).To(Equal(11), "between has the indexes of blocks")
	for i, hidden := range between(e, account) {
		if i < len(p.create) {
			p.create[i] += "\n" + hidden
		} else {
			p.remove[i-len(p.create)] += "\n" + hidden
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*testTimeout)
	defer cancel()
	var out bytes.Buffer
	e.Expect(p.follow(ctx, "-eux", &out)).To(Succeed(), out.String())
	t.Logf("%s", out.String())
	for _, resource := range regexp.MustCompile(`"ResourceARN": "[^"]+"`).FindAllString(out.String(), -1) {
		e.Expect(resource).To(ContainSubstring(":instance/"), "the page says that only terminated instances have the tag")
	}
	e.Expect(e.withoutSpotRole()).To(Equal(before), "only the account's role for Spot is left")
}
