package aws

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	. "github.com/onsi/gomega"
)

// administratorsOfRoles are the calls of an account's administrator for
// examples/cluster-existing-roles.yaml that CAPT may not make.
var administratorsOfRoles = []string{"iam:CreatePolicy"}

// iam calls an action of IAM as the account's administrator.
func (e *emulator) iam(action string, pairs ...string) string {
	e.t.Helper()
	form := url.Values{"Version": {"2010-05-08"}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return e.call(query{service: "iam", action: action, form: form})
}

// createRole creates a role that a service of AWS may assume.
func (e *emulator) createRole(name, service string) {
	e.t.Helper()
	e.iam("CreateRole", "RoleName", name, "AssumeRolePolicyDocument",
		fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"%s.amazonaws.com"},"Action":["sts:AssumeRole","sts:TagSession"]}]}`, service))
}

// createRoles creates the roles, the key and the instance profile that
// examples/cluster-existing-roles.yaml names, and returns the texts of the example that
// differ in this account.
func (e *emulator) createRoles() map[string]string {
	e.t.Helper()
	e.administrator = slices.Concat(e.administrator, administratorsOfRoles)
	const everything = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`
	e.iam("CreatePolicy", "PolicyName", "boundary", "PolicyDocument", everything)
	for name, service := range map[string]string{"eks-control-plane": "eks", "ebs-csi": "pods.eks", "karpenter-nodes": "ec2"} {
		e.createRole(name, service)
	}
	e.iam("CreateInstanceProfile", "InstanceProfileName", "karpenter-nodes")
	e.iam("AddRoleToInstanceProfile", "InstanceProfileName", "karpenter-nodes", "RoleName", "karpenter-nodes")
	status, text := e.request(http.MethodPost, "/", "kms", "application/x-amz-json-1.1", "TrentService.CreateKey", `{}`)
	e.Expect(status).To(Equal(http.StatusOK), text)
	var key struct{ KeyMetadata struct{ Arn string } }
	e.Expect(json.Unmarshal([]byte(text), &key)).To(Succeed())
	return map[string]string{"arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab": key.KeyMetadata.Arn}
}

// usesExistingRoles checks that the cluster has the existing roles, and that those that CAPT
// created have the permissions boundary.
func (m *management) usesExistingRoles() {
	m.t.Helper()
	m.Expect(m.eks("GET", "/clusters/"+m.cluster, "")).To(ContainSubstring(`"roleArn":"arn:aws:iam::123456789012:role/eks-control-plane"`))
	m.Expect(m.eks("GET", "/clusters/"+m.cluster+"/pod-identity-associations", "")).To(ContainSubstring(`"serviceAccount":"ebs-csi-controller-sa"`))
	m.Expect(m.eks("GET", "/clusters/"+m.cluster+"/access-entries/"+url.PathEscape("arn:aws:iam::123456789012:role/karpenter-nodes"), "")).To(ContainSubstring(`"type":"EC2_LINUX"`))
	m.Expect(m.iam("GetRole", "RoleName", "KarpenterController-"+m.cluster+"-"+region)).To(ContainSubstring("arn:aws:iam::123456789012:policy/boundary"))
	for _, name := range m.resources() {
		m.Expect(name).NotTo(And(ContainSubstring("instance-profile/"), Not(HaveSuffix("/karpenter-nodes"))), "CAPT creates no instance profile")
	}
}
