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

// virtual are resources that no request has. Policies of the API server ask for permissions
// on them, and it asks itself for those on finalizers of owners.
var virtual = []string{"secrets/capt", "workspacetemplateapplies/approval", "workspacetemplateapplies/host"}

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
		Rules []struct {
			APIGroups []string `json:"apiGroups"`
			Resources []string `json:"resources"`
			Verbs     []string `json:"verbs"`
		} `json:"rules"`
	}
	if err := yaml.Unmarshal(text, &role); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	var all []permission
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					if !isVirtual(resource) {
						all = append(all, permission{group, resource, verb})
					}
				}
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no rules", file)
	}
	return all, nil
}

// readLogs returns the permissions that a program used, according to the audit logs in a
// directory.
func readLogs(dir, agent string) (map[permission]bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return nil, err
	}
	used := map[permission]bool{}
	for _, name := range files {
		if err := readLog(name, agent, used); err != nil {
			return nil, err
		}
	}
	return used, nil
}

// event is what this command reads of an audit event.
type event struct {
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	ObjectRef *struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
}

func readLog(name, agent string, into map[permission]bool) (err error) {
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
		if json.Unmarshal(line, &e) == nil && e.ObjectRef != nil && strings.HasPrefix(e.UserAgent, agent) {
			into[e.permission()] = true
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

// subtract returns the permissions that are not used.
func subtract(granted []permission, used map[permission]bool) []permission {
	var unused []permission
	for _, p := range granted {
		if !used[p] && !slices.Contains(unused, p) {
			unused = append(unused, p)
		}
	}
	slices.SortFunc(unused, func(a, b permission) int {
		return strings.Compare(a.group+a.resource+a.verb, b.group+b.resource+b.verb)
	})
	return unused
}
