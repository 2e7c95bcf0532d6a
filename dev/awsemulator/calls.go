package main

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// calls records the API calls, in the spelling of IAM's actions, such as
// ec2:DescribeVpcs. So a test can compare them with a policy.
type calls struct {
	mutex sync.Mutex
	seen  map[string]bool
}

// record returns a handler that records each call.
func (c *calls) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if action := actionOf(r); action != "" {
			c.mutex.Lock()
			c.seen[action] = true
			c.mutex.Unlock()
		}
		next.ServeHTTP(w, r)
	})
}

// list returns the actions, sorted.
func (c *calls) list() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Sorted(maps.Keys(c.seen))
}

// prefixes are the services whose actions have another prefix than the scope of their
// signature.
var prefixes = map[string]string{"tagging": "tag", "monitoring": "cloudwatch"}

// testKey is the access key with which tests ask about the account themselves.
const testKey = "test"

// actionOf returns the action of a call, or an empty string for calls of moto's and the
// emulator's own API, and for those of tests. It keeps the body readable.
func actionOf(r *http.Request) string {
	service := scopeOf(r).service
	if service == "" || strings.Contains(r.Header.Get("Authorization"), "Credential="+testKey+"/") {
		return ""
	}
	name := ""
	switch target := r.Header.Get("X-Amz-Target"); {
	case target != "":
		name = target[strings.LastIndex(target, ".")+1:]
	case service == "eks":
		name = eksAction(r.Method, r.URL.EscapedPath())
	case service == "s3":
		name = s3Action(r.Method, r.URL.Path)
	default:
		name = formAction(r)
	}
	if name == "" {
		name = r.Method + " " + r.URL.Path
	}
	if prefix, other := prefixes[service]; other {
		service = prefix
	}
	return service + ":" + name
}

// formAction returns the action in the query or the form of a request.
func formAction(r *http.Request) string {
	if action := r.URL.Query().Get("Action"); action != "" || r.Body == nil {
		return action
	}
	text, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(text))
	if err != nil {
		return ""
	}
	form, err := url.ParseQuery(string(text))
	if err != nil {
		return ""
	}
	return form.Get("Action")
}

// s3Action returns the action of a request of S3, whose path is the bucket and the key.
func s3Action(method, path string) string {
	_, key, _ := strings.Cut(strings.Trim(path, "/"), "/")
	switch {
	case key == "" && (method == http.MethodGet || method == http.MethodHead):
		return "ListBucket"
	case key == "":
		return ""
	case method == http.MethodHead:
		method = http.MethodGet
	}
	return map[string]string{http.MethodGet: "GetObject", http.MethodPut: "PutObject", http.MethodDelete: "DeleteObject"}[method]
}

// eksKinds are the kinds of objects in the paths of EKS.
var eksKinds = map[string]string{
	"addons": "Addon", "node-groups": "Nodegroup", "fargate-profiles": "FargateProfile",
	"access-entries": "AccessEntry", "pod-identity-associations": "PodIdentityAssociation",
}

// eksAction returns the action of a request of EKS.
func eksAction(method, path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "tags":
		return map[string]string{"GET": "ListTagsForResource", "POST": "TagResource", "DELETE": "UntagResource"}[method]
	case parts[0] == "cluster-versions":
		return "DescribeClusterVersions"
	case parts[0] == "addons":
		return "DescribeAddonVersions"
	case len(parts) == 1:
		return map[string]string{"GET": "ListClusters", "POST": "CreateCluster"}[method]
	case len(parts) == 2:
		return map[string]string{"GET": "DescribeCluster", "DELETE": "DeleteCluster"}[method]
	case parts[2] == "update-config":
		return "UpdateClusterConfig"
	case parts[2] == "updates":
		return map[string]string{"GET": "DescribeUpdate", "POST": "UpdateClusterVersion"}[method]
	case len(parts) >= 5 && parts[4] == "access-policies":
		return map[string]string{"GET": "ListAssociatedAccessPolicies", "POST": "AssociateAccessPolicy", "DELETE": "DisassociateAccessPolicy"}[method]
	}
	return eksObjectAction(method, parts)
}

// eksObjectAction returns the action of a request for objects of a cluster.
func eksObjectAction(method string, parts []string) string {
	kind := eksKinds[parts[2]]
	switch {
	case kind == "":
		return ""
	case len(parts) == 3 && method == http.MethodGet:
		return "List" + strings.Replace(kind+"s", "Entrys", "Entries", 1)
	case len(parts) == 3:
		return "Create" + kind
	case len(parts) == 5 && parts[4] == "update-config":
		return "UpdateNodegroupConfig"
	case len(parts) == 5 && parts[4] == "update-version":
		return "UpdateNodegroupVersion"
	}
	return map[string]string{http.MethodGet: "Describe", http.MethodPost: "Update", http.MethodDelete: "Delete"}[method] + kind
}
