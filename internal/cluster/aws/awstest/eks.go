package awstest

import (
	"net/http"
	"net/url"
	"strings"
)

// AddCluster creates an EKS cluster in the account. The name role/name creates it in
// another account, which the sessions of a role use.
func (s *Server) AddCluster(name, endpoint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clusters[name] = endpoint
}

// eksCall returns the action and the parameters of a call of EKS, which are in the path.
func eksCall(r *http.Request) (action string, form url.Values) {
	name, found := strings.CutPrefix(r.URL.Path, "/clusters/")
	if !found || r.Method != http.MethodGet {
		return r.Method + " " + r.URL.Path, nil
	}
	return "DescribeCluster", url.Values{"name": {name}}
}

func (s *Server) describeCluster(c call) (any, error) {
	name := c.form.Get("name")
	account := ""
	if _, session, found := strings.Cut(c.caller.ARN, ":assumed-role/"); found {
		role, _, _ := strings.Cut(session, "/")
		account = role + "/"
	}
	endpoint, found := s.clusters[account+name]
	if !found {
		return nil, refuse(http.StatusNotFound, "ResourceNotFoundException", "No cluster found for name: %s.", name)
	}
	return map[string]any{"cluster": map[string]any{"name": name, "endpoint": endpoint}}, nil
}
