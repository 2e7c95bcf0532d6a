package main

import (
	"encoding/json"
	"encoding/xml"
	"net/url"
	"slices"
	"strings"
)

// The services that assume the roles of a cluster.
const (
	controlPlaneService = "eks.amazonaws.com"
	nodeService         = "ec2.amazonaws.com"
	fargateService      = "eks-fargate-pods.amazonaws.com"
	podService          = "pods.eks.amazonaws.com"
)

// checkRole rejects a role that does not exist or that a service may not assume. A missing
// ARN is rejected by every client.
func (e *eks) checkRole(c *call, roleARN, service string) error {
	if roleARN == "" {
		return nil
	}
	form := url.Values{"Action": {"GetRole"}, "Version": {"2010-05-08"}, "RoleName": {roleARN[strings.LastIndex(roleARN, "/")+1:]}}
	var found struct {
		ARN   string `xml:"GetRoleResult>Role>Arn"`
		Trust string `xml:"GetRoleResult>Role>AssumeRolePolicyDocument"`
	}
	err := callMoto(c.Context(), e.moto, "iam", c.region, "application/x-www-form-urlencoded", "", form.Encode(), func(text []byte) error {
		return xml.Unmarshal(text, &found)
	})
	trust, unescapeErr := url.QueryUnescape(found.Trust)
	if err != nil || unescapeErr != nil || found.ARN != roleARN || !trusts(trust, service, service+".cn") {
		return invalid("Role with arn: %s, could not be assumed because it does not exist or the trusted entity is not correct", roleARN)
	}
	return nil
}

// trusts reports whether a trust policy names one of the services.
func trusts(policy string, services ...string) bool {
	var document struct{ Statement any }
	if json.Unmarshal([]byte(policy), &document) != nil {
		return false
	}
	statements, isList := document.Statement.([]any)
	if !isList {
		statements = []any{document.Statement}
	}
	for _, item := range statements {
		statement, _ := item.(values)
		trusted := child(statement, "Principal")["Service"]
		names := strs(trusted)
		if name, isText := trusted.(string); isText {
			names = []string{name}
		}
		if statement["Effect"] == "Allow" && slices.ContainsFunc(names, func(name string) bool { return slices.Contains(services, name) }) {
			return true
		}
	}
	return false
}

// checkKeys rejects a cluster whose key is missing, disabled or asymmetric.
func (e *eks) checkKeys(c *call) error {
	configs, _ := c.body["encryptionConfig"].([]any)
	for _, config := range configs {
		provider := child(config.(values), "provider")
		keyARN := text(provider, "keyArn")
		var found struct {
			KeyMetadata struct{ KeyState, KeySpec string }
		}
		body, err := json.Marshal(map[string]string{"KeyId": keyARN})
		if err != nil {
			return err
		}
		err = callMoto(c.Context(), e.moto, "kms", c.region, "application/x-amz-json-1.1", "TrentService.DescribeKey", string(body), func(text []byte) error {
			return json.Unmarshal(text, &found)
		})
		if key := found.KeyMetadata; err != nil || key.KeyState != "Enabled" || key.KeySpec != "SYMMETRIC_DEFAULT" {
			return invalid("The keyArn in encryptionConfig provider is not valid: %s", keyARN)
		}
	}
	return nil
}
