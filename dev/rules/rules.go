package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// permission is one verb on one resource.
type permission struct {
	group, resource, verb string
}

func (p permission) String() string {
	if p.group == "" {
		return p.verb + " " + p.resource
	}
	return p.verb + " " + p.resource + "." + p.group
}

// rule is a rule of a role.
type rule struct {
	APIGroups []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
}

// flatten returns the permissions of rules.
func flatten(rules []rule) []permission {
	var all []permission
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, permission{group, resource, verb})
				}
			}
		}
	}
	return all
}

// virtual are resources that no request has. Policies of the API server ask for permissions
// on them, and it asks itself for those on finalizers of owners.
var virtual = []string{"secrets/capt", "workspacetemplateapplies/host"}

func isVirtual(resource string) bool {
	return slices.Contains(virtual, resource) || strings.HasSuffix(resource, "/finalizers")
}

// readRole returns the permissions of a ClusterRole, without those on virtual resources.
func readRole(file string) ([]permission, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var role struct {
		Rules []rule `json:"rules"`
	}
	if err := yaml.Unmarshal(text, &role); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	all := slices.DeleteFunc(flatten(role.Rules), func(p permission) bool { return isVirtual(p.resource) })
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no rules", file)
	}
	return all, nil
}

// readLogs returns the permissions that a user used, according to the audit logs in a
// directory.
func readLogs(dir, user string) (map[permission]bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return nil, err
	}
	used := map[permission]bool{}
	for _, name := range files {
		if err := readLog(name, user, used); err != nil {
			return nil, err
		}
	}
	return used, nil
}

// event is what this command reads of an audit event.
type event struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef *struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	// RequestObject is a role that the user creates or changes.
	RequestObject struct {
		Rules []rule `json:"rules"`
	} `json:"requestObject"`
}

func readLog(name, user string, into map[permission]bool) (err error) {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	reader := bufio.NewReader(file)
	for {
		line, err := reader.ReadBytes('\n')
		var e event
		// The API server may have been killed while it wrote the last line.
		if json.Unmarshal(line, &e) == nil && e.ObjectRef != nil && e.User.Username == user {
			into[e.permission()] = true
			// A user can grant only permissions that it has.
			for _, p := range flatten(e.RequestObject.Rules) {
				into[p] = true
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
	}
}

func (e event) permission() permission {
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	return permission{e.ObjectRef.APIGroup, resource, e.Verb}
}

// isUsed reports whether a permission is used. Those to read are one permission: who lists or
// watches objects can read each of them, and whether the manager lists or gets depends on what
// its caches have.
func isUsed(used map[permission]bool, p permission) bool {
	reads := []string{"get", "list", "watch"}
	if !slices.Contains(reads, p.verb) {
		return used[p]
	}
	return slices.ContainsFunc(reads, func(verb string) bool { return used[permission{p.group, p.resource, verb}] })
}

// compare returns the permissions that are neither used nor exceptions, and the exceptions
// that are used or not granted.
func compare(granted []permission, used map[permission]bool, exceptions map[permission]string) (unused, needless []permission) {
	for _, p := range granted {
		if _, excepted := exceptions[p]; !isUsed(used, p) && !excepted && !slices.Contains(unused, p) {
			unused = append(unused, p)
		}
	}
	for p := range exceptions {
		if isUsed(used, p) || !slices.Contains(granted, p) {
			needless = append(needless, p)
		}
	}
	for _, list := range [][]permission{unused, needless} {
		slices.SortFunc(list, func(a, b permission) int {
			return strings.Compare(a.group+a.resource+a.verb, b.group+b.resource+b.verb)
		})
	}
	return unused, needless
}
