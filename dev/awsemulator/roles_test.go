package main

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// roleOf returns moto's response for the role demo, which a service may assume.
func roleOf(service string) string {
	trust := url.QueryEscape(fmt.Sprintf(`{"Statement":[{"Effect":"Allow","Principal":{"Service":[%q]},"Action":"sts:AssumeRole"}]}`, service))
	return `<R><GetRoleResult><Role><Arn>arn:aws:iam::123456789012:role/demo</Arn><AssumeRolePolicyDocument>` + trust + `</AssumeRolePolicyDocument></Role></GetRoleResult></R>`
}

func TestEKS_assumesOnlyRolesThatExistAndTrustIt(t *testing.T) {
	const role = `"arn:aws:iam::123456789012:role/demo"`
	for _, test := range []struct{ path, service, body string }{
		{"/clusters", controlPlaneService, strings.Replace(demoCluster, `"demo"`, `"other","roleArn":`+role, 1)},
		{"/clusters/demo/node-groups", nodeService, `{"nodegroupName":"a","nodeRole":` + role + `}`},
		{"/clusters/demo/fargate-profiles", fargateService, `{"fargateProfileName":"a","podExecutionRoleArn":` + role + `}`},
		{"/clusters/demo/pod-identity-associations", podService, `{"namespace":"a","serviceAccount":"a","roleArn":` + role + `}`},
		{"/clusters/demo/addons", podService, `{"addonName":"vpc-cni","podIdentityAssociations":[{"serviceAccount":"aws-node","roleArn":` + role + `}]}`},
	} {
		r := newCluster(t)
		r.must(400, "could not be assumed", "POST", test.path, test.body)
		r = newCluster(t)
		r.answers = map[string]string{"GetRole": roleOf("lambda.amazonaws.com")}
		r.must(400, "could not be assumed", "POST", test.path, test.body)
		r = newCluster(t)
		r.answers = map[string]string{"GetRole": roleOf(test.service)}
		r.must(200, "", "POST", test.path, test.body)
		r.settle()
		other := strings.NewReplacer("123456789012", "210987654321", `"other"`, `"third"`)
		r.must(400, "could not be assumed", "POST", test.path, other.Replace(test.body))
	}
}

func TestEKS_usesOnlyAnEnabledSymmetricKey(t *testing.T) {
	const key = "arn:aws:kms:eu-central-1:123456789012:key/1"
	encrypted := strings.Replace(demoCluster, `"demo"`, `"demo","encryptionConfig":[{"provider":{"keyArn":"`+key+`"}}]`, 1)
	for state, status := range map[string]int{"Enabled": 200, "PendingDeletion": 400} {
		r := newHarness(t)
		// Only requests to KMS have a body in place of a form.
		r.answers = map[string]string{"": `{"KeyMetadata":{"Arn":"` + key + `","KeyState":"` + state + `","KeySpec":"SYMMETRIC_DEFAULT"}}`}
		r.must(status, "", "POST", "/clusters", encrypted)
	}
}

func TestEKS_rolesOfAnAddonAreAssociatedWhileItExists(t *testing.T) {
	r := newCluster(t)
	r.answers = map[string]string{"GetRole": roleOf(podService)}
	const addon, account = "/clusters/demo/addons/aws-ebs-csi-driver", `{"serviceAccount":"%s","roleArn":"arn:aws:iam::123456789012:role/demo"}`
	r.must(200, "CREATING", "POST", "/clusters/demo/addons", `{"addonName":"aws-ebs-csi-driver","podIdentityAssociations":[`+fmt.Sprintf(account, "ebs")+`]}`)
	r.must(200, `"podIdentityAssociations":["arn:aws:eks:`, "GET", addon, "")
	r.must(200, `"serviceAccount":"ebs"`, "GET", "/clusters/demo/pod-identity-associations", "")
	r.settle()
	r.must(200, "", "POST", addon+"/update", `{"configurationValues":"{}"}`)
	r.must(200, `"serviceAccount":"ebs"`, "GET", "/clusters/demo/pod-identity-associations", "")
	r.settle()
	r.must(200, "", "POST", addon+"/update", `{"podIdentityAssociations":[`+fmt.Sprintf(account, "other")+`]}`)
	r.must(200, `"serviceAccount":"other"`, "GET", "/clusters/demo/pod-identity-associations", "")
	r.must(200, "", "DELETE", addon, "")
	r.must(200, `{"associations":[]}`, "GET", "/clusters/demo/pod-identity-associations", "")
}

func TestTrusts(t *testing.T) {
	for policy, want := range map[string]bool{
		`{"Statement":{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"}}}`:                                                               true,
		`{"Statement":[{"Effect":"Allow","Principal":"*"},{"Effect":"Allow","Principal":{"Service":["a","eks.amazonaws.com"]}}]}`:                    true,
		`{"Statement":[{"Effect":"Deny","Principal":{"Service":"eks.amazonaws.com"}},{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::1:root"}}]}`: false,
		`{}`: false, ``: false,
	} {
		if got := trusts(policy, controlPlaneService); got != want {
			t.Errorf("trusts(%s) = %t", policy, got)
		}
	}
}
