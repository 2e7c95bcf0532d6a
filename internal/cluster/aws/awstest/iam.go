package awstest

import (
	"encoding/xml"
	"net/http"
	"time"
)

// serviceLinkedRoles maps services to the names of their roles.
var serviceLinkedRoles = map[string]string{"spot.amazonaws.com": "AWSServiceRoleForEC2Spot"}

// HasRole reports whether a service-linked role exists.
func (s *Server) HasRole(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roles[name]
}

// CreateRole creates a service-linked role, as another client would.
func (s *Server) CreateRole(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roles[name] = true
}

type role struct {
	Path       string
	RoleName   string
	RoleID     string `xml:"RoleId"`
	Arn        string
	CreateDate string
}

type roleResult struct {
	Role role
}

func (s *Server) role(name string) roleResult {
	return roleResult{role{
		Path: "/aws-service-role/", RoleName: name, RoleID: "AROA" + name,
		Arn:        "arn:aws:iam::" + s.Account + ":role/aws-service-role/" + name,
		CreateDate: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339),
	}}
}

func (s *Server) getRole(c call) (any, error) {
	name := c.form.Get("RoleName")
	if !s.roles[name] {
		return nil, refuse(http.StatusNotFound, "NoSuchEntity", "The role with name %s cannot be found.", name)
	}
	return struct {
		XMLName  xml.Name   `xml:"GetRoleResponse"`
		Result   roleResult `xml:"GetRoleResult"`
		Metadata metadata   `xml:"ResponseMetadata"`
	}{Result: s.role(name), Metadata: metadata{requestID}}, nil
}

// createServiceLinkedRole creates a role once. The server holds its lock, so only
// one of several concurrent calls succeeds.
func (s *Server) createServiceLinkedRole(c call) (any, error) {
	name, found := serviceLinkedRoles[c.form.Get("AWSServiceName")]
	if !found {
		return nil, refuse(http.StatusBadRequest, "InvalidInput", "%s is not a service name", c.form.Get("AWSServiceName"))
	}
	if s.roles[name] {
		return nil, refuse(http.StatusBadRequest, "InvalidInput", "Service role name %s has been taken in this account, please try a different suffix.", name)
	}
	s.roles[name] = true
	return struct {
		XMLName  xml.Name   `xml:"CreateServiceLinkedRoleResponse"`
		Result   roleResult `xml:"CreateServiceLinkedRoleResult"`
		Metadata metadata   `xml:"ResponseMetadata"`
	}{Result: s.role(name), Metadata: metadata{requestID}}, nil
}
