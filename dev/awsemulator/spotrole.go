package main

import (
	"bytes"
	"net/http"
	"net/url"
)

const (
	spotService = "spot.amazonaws.com"
	spotRole    = "AWSServiceRoleForEC2Spot"
	spotTrust   = `{"Version":"2012-10-17","Statement":[{"Action":["sts:AssumeRole"],"Effect":"Allow","Principal":{"Service":["spot.amazonaws.com"]}}]}`
)

// nameSpotRole creates the service-linked role of EC2 Spot as an ordinary role with the
// name and path that it has in AWS, which moto does not know.
func nameSpotRole(next http.Handler) http.Handler {
	return withForm("iam", next, func(w http.ResponseWriter, r *http.Request, form url.Values) {
		if form.Get("Action") != "CreateServiceLinkedRole" || form.Get("AWSServiceName") != spotService {
			forward(next, r, form).copyTo(w)
			return
		}
		response := forward(next, r, url.Values{
			"Action": {"CreateRole"}, "Version": {form.Get("Version")}, "RoleName": {spotRole}, "Path": {"/aws-service-role/" + spotService + "/"},
			"AssumeRolePolicyDocument": {spotTrust}, "Description": {form.Get("Description")},
		})
		// AWS has another error for an existing service-linked role.
		if bytes.Contains(response.text, []byte("EntityAlreadyExists")) {
			response.status = http.StatusBadRequest
			response.text = []byte("<ErrorResponse><Error><Type>Sender</Type><Code>InvalidInput</Code><Message>Service role name " + spotRole +
				" has been taken in this account, please try a different suffix.</Message></Error><RequestId>0</RequestId></ErrorResponse>")
		}
		response.text = bytes.ReplaceAll(response.text, []byte("CreateRole"), []byte("CreateServiceLinkedRole"))
		response.copyTo(w)
	})
}
