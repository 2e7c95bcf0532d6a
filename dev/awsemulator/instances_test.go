package main

import (
	"slices"
	"testing"
)

// calls returns a parameter of the calls of an action.
func (r *harness) calls(action, parameter string) []string {
	var found []string
	for _, form := range r.asked {
		if form.Get("Action") == action {
			found = append(found, form.Get(parameter))
		}
	}
	return found
}

func TestInstances_followTheSizeOfTheirNodeGroup(t *testing.T) {
	r := newCluster(t)
	expect := func(what string, found, want []string) {
		t.Helper()
		if !slices.Equal(found, want) {
			t.Fatalf("%s: %v instead of %v", what, found, want)
		}
		r.asked = nil
	}
	group := func(size string) string {
		return `{"nodegroupName": "a", "subnets": ["subnet-1", "subnet-2"], "instanceTypes": ["m7g.large"], "amiType": "AL2023_ARM_64_STANDARD",
			"scalingConfig": {"desiredSize": ` + size + `}}`
	}
	running := func(ids ...string) {
		var items string
		for _, id := range ids {
			items += "<item><instanceId>" + id + "</instanceId></item>"
		}
		r.answers = map[string]string{"DescribeInstances": `<R><reservationSet><item><instancesSet>` + items + `</instancesSet></item></reservationSet></R>`}
	}
	r.must(200, "CREATING", "POST", "/clusters/demo/node-groups", group("3"))
	expect("subnets", r.calls("RunInstances", "SubnetId"), []string{"subnet-1", "subnet-2", "subnet-1"})
	r.settle()

	running("i-1", "i-2", "i-3")
	r.must(200, "InProgress", "POST", "/clusters/demo/node-groups/a/update-config", `{"scalingConfig": {"desiredSize": 2}}`)
	expect("terminated", r.calls("TerminateInstances", "InstanceId.1"), []string{"i-3"})
	r.settle()

	running("i-1", "i-2")
	r.must(200, "InProgress", "POST", "/clusters/demo/node-groups/a/update-version", `{"launchTemplate": {"id": "lt-1", "version": "2"}}`)
	expect("replaced", r.calls("TerminateInstances", "InstanceId.2"), []string{"i-2"})
	r.settle()

	r.must(200, "DELETING", "DELETE", "/clusters/demo/node-groups/a", "")
	expect("deleted", r.calls("TerminateInstances", "InstanceId.2"), []string{"i-2"})
}
